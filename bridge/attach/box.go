package attach

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/bridge/attach/wire"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// BoxConfig is what a box is told once.
type BoxConfig struct {
	Run     string // name of the run; empty: not known, and every trainer is welcome
	DataDir string
	PID     uint64        // of the node
	Timeout time.Duration // without progress
	Looks   time.Duration // between two looks of the step rule
}

// Box is the machine. The zero value is of no use: New makes one.
type Box struct {
	cfg     BoxConfig
	layout  trainer.Layout // of the first set that shared the memory; all later ones have it, too
	set     *rankSet       // that has the node; nil: none
	epoch   uint64         // of the newest set that shared the memory
	lastID  uint64
	request *request   // under way; nil: none
	info    *wire.Info // nil before the run is known
	ended   *Fault     // what everybody is told from now on; nil: the box is open
}

// NewBox makes a box that nobody has attached to.
func NewBox(cfg BoxConfig) *Box { return &Box{cfg: cfg} }

// Receive takes in a message of a rank.
func (b *Box) Receive(now time.Time, conn Conn, id uint64, m wire.Message) []Effect {
	if b.ended != nil {
		return refuse(conn, b.ended)
	}
	if h, ok := m.(*wire.Hello); ok {
		return b.hello(now, conn, id, h)
	}
	r := b.rank(conn)
	if r == nil {
		return refuse(conn, fault(wire.CodeProtocol, "%v before HELLO: a rank's first message is HELLO",
			wire.TypeOf(m)))
	}
	return b.receive(now, r, id, m)
}

// receive takes in what a rank of the set says.
func (b *Box) receive(now time.Time, r *rank, id uint64, m wire.Message) []Effect {
	b.set.heard(now)
	switch m := m.(type) {
	case *wire.Layout:
		return b.laidOut(now, r, id, m)
	case *wire.Done, *wire.Offer:
		return b.answer(r, id, m)
	case *wire.At:
		return b.decideLook(now, r, id, m)
	case *wire.Ping:
		return []Effect{Send{r.conn, id, &wire.Pong{}}}
	case *wire.Leave:
		return b.leave(now, r, m)
	}
	return b.Dismiss(*fault(wire.CodeProtocol, "%v from rank %d: only the node sends that", wire.TypeOf(m), r.number))
}

// leaveTime is how long a set has that leaves the run, from the first rank's LEAVE to the last
// one's.
const leaveTime = 10 * time.Second

// leave takes a rank's leave. One that detaches sends the others away, because they cannot go on
// without it. Of a set that leaves the run, every rank may do its last steps, at looks, too: a
// faster one leaves some time before the others.
func (b *Box) leave(now time.Time, r *rank, m *wire.Leave) []Effect {
	why, s := cmp.Or(m.Reason, "it gave no reason"), b.set
	if m.Run > 0 && s.leaves == "" {
		s.leaves, s.leftAt, s.first = why, now, r.number
	}
	if m.Run == 0 || !s.shares {
		lost := *fault(wire.CodeLost, "rank %d of %d has left: %s", r.number, s.world, why)
		return append(b.dismiss(r, lost), Close{r.conn})
	}
	return append([]Effect{Close{r.conn}}, b.less(r)...)
}

// less goes on without a rank of a set that leaves. The last one ends the set.
func (b *Box) less(r *rank) []Effect {
	delete(b.set.ranks, r.number)
	if len(b.set.ranks) > 0 {
		return nil
	}
	return b.Dismiss(*fault(wire.CodeClosed, "the peer leaves the run: %s", b.set.leaves))
}

// Closed says that a connection has ended.
func (b *Box) Closed(conn Conn, why string) []Effect {
	r := b.rank(conn)
	if r == nil {
		return nil
	}
	if b.set.leaves != "" {
		return b.less(r)
	}
	return b.dismiss(r, *fault(wire.CodeLost, "rank %d of %d was lost (%s): attach again, all ranks", r.number,
		b.set.world, why))
}

// Garbled refuses a connection whose bytes make no sense.
func (b *Box) Garbled(conn Conn, why string) []Effect {
	f := *fault(wire.CodeProtocol, "%s", why)
	if b.rank(conn) == nil {
		return refuse(conn, &f)
	}
	return b.Dismiss(f)
}

// Dismiss sends the set away.
func (b *Box) Dismiss(f Fault) []Effect { return b.dismiss(nil, f) }

// dismiss sends all ranks of the set away but one, which knows why.
func (b *Box) dismiss(but *rank, f Fault) (effects []Effect) {
	if b.set == nil {
		return nil
	}
	for _, r := range b.set.sorted() {
		if r != but {
			effects = append(effects, refuse(r.conn, &f)...)
		}
	}
	switch {
	case b.set.shares:
		effects = append(effects, Lost{f})
	case b.set.layout != nil:
		effects = append(effects, Unwanted{})
	}
	if b.set.leaves != "" {
		effects = append(effects, Leave{b.set.leaves})
	}
	b.set, b.request = nil, nil
	return effects
}

// End sends everybody away, for good.
func (b *Box) End(f Fault) []Effect {
	if b.set != nil {
		b.set.leaves = "" // it ends anyhow
	}
	effects := b.dismiss(nil, f)
	if b.ended == nil {
		b.ended = &f
	}
	return effects
}

// Over says whether End was called.
func (b *Box) Over() bool { return b.ended != nil }

// Tell sends all ranks a message that needs no answer.
func (b *Box) Tell(m wire.Message) (effects []Effect) {
	if b.set == nil || !b.set.shares {
		return nil
	}
	for _, r := range b.set.sorted() {
		effects = append(effects, Send{r.conn, 0, m})
	}
	return effects
}

// Know says which run this is. The ranks are told, and those that come later.
func (b *Box) Know(info wire.Info) []Effect {
	b.info = &info
	return b.Tell(b.info)
}

// Tick looks whether the set has moved. steps are the ranks' words, by rank; nil where no memory is
// shared.
func (b *Box) Tick(now time.Time, steps []uint64) []Effect {
	if b.set == nil {
		return nil
	}
	if b.set.leaves != "" && now.Sub(b.set.leftAt) >= leaveTime {
		return b.Dismiss(*fault(wire.CodeClosed, "rank %d of %d has left the run, and this rank has not within %v: "+
			"the peer leaves. All ranks must do the same number of steps", b.set.first, b.set.world, leaveTime))
	}
	if b.set.moved(now, steps) || b.set.layout != nil && b.request == nil { // it waits for the node
		b.set.heard(now)
	}
	if idle := now.Sub(b.set.last); b.cfg.Timeout <= 0 || idle < b.cfg.Timeout {
		return nil
	}
	return b.Dismiss(*fault(wire.CodeTimeout, "%s for %v (--trainer-timeout)", b.waitsFor(steps), b.cfg.Timeout))
}

// waitsFor says who has not moved.
func (b *Box) waitsFor(steps []uint64) string {
	if !b.set.shares {
		return b.set.describeAbsent()
	}
	for _, r := range b.set.sorted() {
		if b.request.answers[r.number] != nil {
			continue
		}
		text := fmt.Sprintf("rank %d of %d has not moved", r.number, b.set.world)
		if t, ok := b.request.message.(*wire.Train); ok && r.number < uint64(len(steps)) {
			text = fmt.Sprintf("%s after %d of %d steps", text, steps[r.number], t.Steps)
		}
		return text
	}
	return "no rank has moved"
}

// State says in a line how far the trainer is, for people.
func (b *Box) State() string {
	switch {
	case b.set == nil:
		return "no trainer"
	case b.set.layout == nil:
		return "gathering: " + b.set.describeAbsent()
	case !b.set.shares:
		return fmt.Sprintf("%d ranks, for which the shared memory is made", b.set.world)
	case b.request == nil:
		return fmt.Sprintf("%d ranks, at the border", b.set.world)
	}
	return fmt.Sprintf("%d ranks, %s", b.set.world, doing[wire.TypeOf(b.request.message)])
}

// doing is what ranks do for a request, in plain words.
var doing = map[wire.Type]string{
	wire.TypeFill: "writing the initial model", wire.TypeLoad: "loading", wire.TypeExport: "exporting",
	wire.TypeEvaluate: "evaluating", wire.TypeRestore: "restoring their state", wire.TypeTrain: "training",
}

// Missing says which ranks the others wait for; empty: nobody waits for any.
func (b *Box) Missing() string {
	if b.set == nil || b.set.layout != nil {
		return ""
	}
	return b.set.describeAbsent()
}

// TellLowest tells the rank of the lowest number of those that wait for the others. People read
// what one rank prints, and rank 0 may be the one that is missing.
func (b *Box) TellLowest(m wire.Message) []Effect {
	if b.Missing() == "" {
		return nil
	}
	return []Effect{Send{b.set.sorted()[0].conn, 0, m}}
}

// Came says whether all ranks of some set have ever attached, and were given the memory.
func (b *Box) Came() bool { return b.epoch > 0 }

func (b *Box) rank(conn Conn) *rank {
	if b.set == nil {
		return nil
	}
	for _, r := range b.set.ranks {
		if r.conn == conn {
			return r
		}
	}
	return nil
}

// refuse sends one connection away.
func refuse(conn Conn, f *Fault) []Effect {
	return []Effect{Send{conn, 0, &wire.Error{Code: f.Code, Text: f.Text}}, Close{conn}}
}

// sorted are the ranks in their order.
func (s *rankSet) sorted() []*rank {
	var all []*rank
	for _, number := range slices.Sorted(maps.Keys(s.ranks)) {
		all = append(all, s.ranks[number])
	}
	return all
}
