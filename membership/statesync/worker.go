package statesync

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// piece is a part of what is wanted.
type piece struct {
	size  int64
	fetch func(c *conn, dst []byte) (sent int, err error) // fetches and verifies size bytes
	store func(b []byte) error                            // keeps them; called once

	stored atomic.Bool             // true as soon as one worker is about to store it
	holder atomic.Pointer[holding] // the worker that took it last
	// the donors that held it when another one got it, too; only the swarm uses it
	slow []*holding
}

// holding says which donor has a piece, and since when.
type holding struct {
	peer slot.PeerID
	at   time.Time
}

// result is what a worker reports: a piece that is stored, or, at its end, why it stopped.
type result struct {
	peer  slot.PeerID
	p     *piece
	sent  int
	taken time.Time // when the worker took the piece
	err   error
}

// exchange is what the swarm and its workers share.
type exchange struct {
	queue   chan *piece     // has room for all copies of all pieces, so sending never blocks
	results chan result     // to the swarm
	over    <-chan struct{} // closed when the swarm no longer reads results
	idle    atomic.Int32    // workers that wait for a piece
}

// report gives a result to the swarm, unless the fetch is over.
func (x *exchange) report(r result) {
	select {
	case x.results <- r:
	case <-x.over:
	}
}

const (
	// maxStrikes is how many faults in a row cost a donor its part. One fault may be a connection
	// that came to its end.
	maxStrikes   = 2
	maxBusy      = 8 // answers in a row that the donor is busy: 12 s in all
	firstBackoff = 50 * time.Millisecond
)

// localError is a fault on this side, such as a full disk. No other donor can help.
type localError struct{ error }

func (e localError) Unwrap() error { return e.error }

// worker fetches pieces from one donor over one stream at a time.
type worker struct {
	x     *exchange
	dial  dialer
	ctx   context.Context // ends when the donor is dropped or the fetch is over
	asked context.Context // within ctx: ends when the donor is asked for nothing more
	peer  slot.PeerID
	first *piece // assigned before the worker started; may be nil
	// since when it fetches a piece; nil: it does not
	busySince *atomic.Pointer[time.Time]

	conn          *conn
	buf           []byte
	strikes, busy int // in a row
}

// run works until the donor has to be given up, and reports why.
func (k *worker) run() {
	err := k.work()
	k.hangUp(nil)
	k.x.report(result{peer: k.peer, err: err})
}

func (k *worker) work() error {
	for {
		p, err := k.nextPiece()
		if err != nil {
			return err
		}
		if p.stored.Load() { // a second donor was faster
			continue
		}
		taken := time.Now()
		p.holder.Store(&holding{k.peer, taken})
		k.busySince.Store(&taken)
		sent, err := k.fetch(p)
		k.busySince.Store(nil)
		if err != nil {
			k.x.queue <- p // before the fault is reported, so that no piece is lost
			k.hangUp(err)
			if err := k.judge(err); err != nil {
				return err
			}
			continue
		}
		k.strikes, k.busy = 0, 0
		if !p.stored.CompareAndSwap(false, true) {
			continue
		}
		if err := p.store(k.buf); err != nil {
			return localError{err}
		}
		k.x.report(result{peer: k.peer, p: p, sent: sent, taken: taken})
	}
}

func (k *worker) nextPiece() (*piece, error) {
	if p := k.first; p != nil {
		k.first = nil
		return p, nil
	}
	k.x.idle.Add(1)
	defer k.x.idle.Add(-1)
	select {
	case <-k.asked.Done():
		return nil, k.asked.Err()
	case p := <-k.x.queue:
		return p, nil
	}
}

// fetch leaves the verified bytes of the piece in buf.
func (k *worker) fetch(p *piece) (sent int, err error) {
	if k.conn == nil {
		if k.conn, err = k.dial.dial(k.ctx, k.peer); err != nil {
			return 0, err
		}
	}
	if int64(cap(k.buf)) < p.size {
		k.buf = make([]byte, p.size)
	}
	k.buf = k.buf[:p.size]
	defer k.conn.during(k.ctx)()
	return p.fetch(k.conn, k.buf)
}

// hangUp ends the stream.
func (k *worker) hangUp(fault error) {
	if k.conn != nil {
		k.conn.close(fault)
		k.conn = nil
	}
}

// judge returns an error if a fault means that the donor has to be given up. Otherwise it waits
// until the next try.
func (k *worker) judge(err error) error {
	var liar *lieError
	wait := firstBackoff
	switch {
	case k.ctx.Err() != nil:
		return k.ctx.Err()
	case errors.As(err, &liar), errors.Is(err, errNotHeld), errors.Is(err, errSpent):
		return err
	case errors.Is(err, errBusy):
		if k.busy++; k.busy >= maxBusy {
			return fmt.Errorf("%w, and was so %d times in a row", errBusy, k.busy)
		}
		wait <<= k.busy
	default:
		// a second wait for a deadline would take too long
		if k.strikes++; k.strikes >= maxStrikes || wire.TimedOut(err) {
			return fmt.Errorf("cannot be reached, or stalls: %w", err)
		}
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-k.asked.Done():
		return k.asked.Err()
	case <-t.C:
		return nil
	}
}
