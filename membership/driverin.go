package membership

import (
	"fmt"
	"log/slog"
	"math/bits"
	"sync"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// verifyLoop checks signatures outside of the loop's goroutine until the inbox closes.
func (d *Driver) verifyLoop() {
	for {
		q, b, ok := d.inbox.take()
		if !ok {
			return
		}
		m, err := Open(b, d.cfg.Rules.Run, d.cfg.Verify)
		switch {
		case err != nil:
			d.blame.bad(q.from, err)
		case m.From == d.cfg.Signer.ID():
			if m.Incarnation != d.inc && q.from == m.From {
				d.inputs.report(ReportEcho{m})
			} else if m.Incarnation != d.inc {
				d.blame.twin(q.from, m.Incarnation)
			} // else an announcement of our own that came back
		case m.From != q.from:
			d.blame.bad(q.from, fmt.Errorf("%w: it is %s's", ErrRelayed, m.From))
		case !d.answers.allow(q.from, m.Body, time.Now()):
			d.blame.refuse(q.from, m, errTooManyQuestions)
		default:
			d.inputs.message(q.from, m)
		}
		d.inbox.done(q)
	}
}

// inputs is what waits for the loop.
type inputs struct {
	mu struct {
		sync.Mutex
		reports  []Report // unbounded: they come from this process alone, a few for each piece of work
		messages []received
		closed   bool
	}
	ready chan struct{} // holds a token while something may wait
	room  *sync.Cond    // signalled when messages were taken
}

type received struct {
	via slot.PeerID
	Message
}

func newInputs() *inputs {
	in := &inputs{ready: make(chan struct{}, 1)}
	in.room = sync.NewCond(&in.mu)
	return in
}

// message hands a verified message to the loop, waiting while as many as it takes at once are there: the inbox is the queue
// that is bounded fairly.
func (in *inputs) message(via slot.PeerID, m Message) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for len(in.mu.messages) >= inputsAtOnce && !in.mu.closed {
		in.room.Wait()
	}
	in.mu.messages = append(in.mu.messages, received{via, m})
	in.signal()
}

func (in *inputs) report(r Report) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.mu.closed {
		return
	}
	// Only the newest progress counts.
	if n := len(in.mu.reports); n > 0 {
		_, now := r.(ReportProgress)
		if _, before := in.mu.reports[n-1].(ReportProgress); now && before {
			in.mu.reports[n-1] = r
			return
		}
	}
	in.mu.reports = append(in.mu.reports, r)
	in.signal()
}

func (in *inputs) signal() {
	select {
	case in.ready <- struct{}{}:
	default:
	}
}

func (in *inputs) take() ([]Report, []received) {
	in.mu.Lock()
	defer in.mu.Unlock()
	reports, messages := in.mu.reports, in.mu.messages
	in.mu.reports, in.mu.messages = nil, nil
	in.room.Broadcast()
	return reports, messages
}

func (in *inputs) close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.mu.closed = true
	in.room.Broadcast()
}

// blame counts bad messages by the peer they came from, and logs the first, second, fourth, eighth … of each: a flooder shall
// not fill the log. Nor shall one with many names: beyond blameLines lines only one for every blameLines bad messages is written.
type blame struct {
	log *slog.Logger
	mu  struct {
		sync.Mutex
		by           map[slot.PeerID]uint64
		total, lines uint64
	}
}

const blameLines = 128

func newBlame(log *slog.Logger) *blame {
	b := &blame{log: log}
	b.mu.by = map[slot.PeerID]uint64{}
	return b
}

func (b *blame) count(from slot.PeerID) (n uint64, tell bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.total++
	if _, known := b.mu.by[from]; !known && len(b.mu.by) >= inboxPeers {
		clear(b.mu.by) // counts of long ago; the total stays
	}
	b.mu.by[from]++
	n = b.mu.by[from]
	if bits.OnesCount64(n) != 1 || b.mu.lines >= blameLines+b.mu.total/blameLines {
		return n, false
	}
	b.mu.lines++
	return n, true
}

// bad: bytes that are no message of this run.
func (b *blame) bad(from slot.PeerID, err error) {
	if n, tell := b.count(from); tell {
		b.log.Warn("bad ledger message", "from", from, "count", n, "error", err)
	}
}

// refuse: a message that the machine made nothing of. Honest peers send such when they lag, so it is no warning.
func (b *blame) refuse(via slot.PeerID, m Message, err error) {
	b.log.Debug("ledger message refused", "from", m.From, "via", via, "type", TypeName(m.Body.Type()), "error", err)
}

// twin: somebody else signs with this peer's key.
func (b *blame) twin(via slot.PeerID, inc slot.Incarnation) {
	if n, tell := b.count(via); tell {
		b.log.Warn("a message signed with this peer's own key comes from another vote log: either another process uses a copy of the "+
			"identity file (stop it), or this peer lost its log not long ago", "via", via, "incarnation", inc, "count", n)
	}
}
