package attach

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/p2pdiloco/p2pdiloco/bridge/attach/wire"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// rankSet are the ranks of one start of a trainer. It is all or nothing.
type rankSet struct {
	name   string
	world  uint64
	ranks  map[uint64]*rank // by number; without those that have left
	layout trainer.Layout   // that all were laid out with; nil before
	shares bool             // the memory went to them
	last   time.Time        // something was heard or seen to move
	steps  []uint64         // the ranks' words when that was looked at

	leaves string    // why the set leaves the run; empty: it does not
	first  uint64    // the rank that said so first
	leftAt time.Time // and when
}

// rank is one process of a trainer.
type rank struct {
	conn   Conn
	number uint64
	laid   *wire.Layout // nil before
	id     uint64       // of its LAYOUT
	saves  bool
	state  uint64 // Hello.State
}

// private is what is known of the private state of all ranks. If they differ in whose round they
// have whole, they have none.
func (s *rankSet) private() (saves bool, state uint64) {
	all := s.sorted()
	saves, state = true, all[0].state
	for _, r := range all {
		saves = saves && r.saves
		if r.state != state {
			state = 0
		}
	}
	return saves, state
}

// heard notes that the set is alive.
func (s *rankSet) heard(now time.Time) { s.last = now }

// moved says whether a rank's word has changed.
func (s *rankSet) moved(now time.Time, steps []uint64) bool {
	if slices.Equal(steps, s.steps) {
		return false
	}
	s.steps = slices.Clone(steps)
	s.heard(now)
	return true
}

// describeAbsent says for whom the set waits.
func (s *rankSet) describeAbsent() string {
	var absent []string
	for number := range s.world {
		if r := s.ranks[number]; r == nil || r.laid == nil {
			if absent = append(absent, fmt.Sprint(number)); len(absent) > 8 {
				absent[8] = "…"
				break
			}
		}
	}
	ranks, have := "ranks", "have"
	if len(absent) == 1 {
		ranks, have = "rank", "has"
	}
	return fmt.Sprintf("%s %s of %d %s not attached", ranks, strings.Join(absent, ", "), s.world, have)
}

// hello takes a rank into the set that has the node, or lets it begin one.
func (b *Box) hello(now time.Time, conn Conn, id uint64, h *wire.Hello) []Effect {
	if b.rank(conn) != nil {
		return b.Dismiss(*fault(wire.CodeProtocol, "a second HELLO on one connection"))
	}
	if f := b.admit(h); f != nil {
		return refuse(conn, f)
	}
	if b.set == nil {
		b.set = &rankSet{name: h.Set, world: h.World, ranks: make(map[uint64]*rank)}
	}
	b.set.heard(now)
	b.set.ranks[h.Rank] = &rank{conn: conn, number: h.Rank, saves: h.Saves == 1, state: h.State}
	return []Effect{Send{conn, id, &wire.Welcome{
		Version: wire.Version, Run: b.cfg.Run, DataDir: b.cfg.DataDir, PID: b.cfg.PID,
	}}}
}

// admit returns why a rank cannot attach.
func (b *Box) admit(h *wire.Hello) *Fault {
	const ours = wire.Version >> 16
	if theirs := h.Version >> 16; theirs != ours {
		return fault(wire.CodeVersion, "this node speaks attach protocol %d, the client %d: install the same release "+
			"of both", ours, theirs)
	}
	// a trainer may have said which run of the name it wants, as NAME@ID
	if h.Run != "" && b.cfg.Run != "" && h.Run != b.cfg.Run && !strings.HasPrefix(h.Run, b.cfg.Run+"@") {
		return fault(wire.CodeRun, "this node takes part in run %q, and the trainer wants %q: start a node for that "+
			"run", b.cfg.Run, h.Run)
	}
	if h.World < 1 || h.World > wire.MaxRanks || h.Rank >= h.World {
		return fault(wire.CodeRank, "rank %d of %d: ranks are numbered from 0, and 1 to %d are allowed", h.Rank,
			h.World, wire.MaxRanks)
	}
	if s := b.set; s != nil {
		return s.admit(h)
	}
	return nil
}

func (s *rankSet) admit(h *wire.Hello) *Fault {
	switch {
	case h.Set != s.name:
		return fault(wire.CodeBusy, "%s trains this run here: try again when it has ended, or give data_dir= for a "+
			"second peer", s.name)
	case s.leaves != "":
		return fault(wire.CodeBusy, "%s is leaving the run here: try again when it has", s.name)
	case h.World != s.world:
		return fault(wire.CodeRank, "rank %d says that there are %d ranks, and the others say %d: start all "+
			"ranks alike", h.Rank, h.World, s.world)
	case s.ranks[h.Rank] != nil:
		return fault(wire.CodeRank, "rank %d of %d is attached already: give each process a rank of its own", h.Rank,
			h.World)
	}
	return nil
}

// laidOut takes in a rank's layout. The last one completes the set.
func (b *Box) laidOut(now time.Time, r *rank, id uint64, l *wire.Layout) []Effect {
	if r.laid != nil {
		return b.Dismiss(*fault(wire.CodeProtocol, "a second LAYOUT from rank %d", r.number))
	}
	r.laid, r.id = l, id
	if b.set.laid() < b.set.world {
		return nil
	}
	return b.whole(now)
}

// laid counts the ranks that have said what they hold.
func (s *rankSet) laid() (n uint64) {
	for _, r := range s.ranks {
		if r.laid != nil {
			n++
		}
	}
	return n
}

// whole has the memory made for a set that has come together.
func (b *Box) whole(now time.Time) []Effect {
	ranks := b.set.sorted()
	held := make([]*wire.Layout, len(ranks))
	for i, r := range ranks {
		held[i] = r.laid
	}
	layout, writes, err := Cover(held)
	if err == nil && b.layout != nil {
		if d := layout.Diff(b.layout); d != "" {
			err = fmt.Errorf("the model differs from the one that this node has begun with: %s: start the trainer "+
				"with that model, or end this node (pid %d) first", d, b.cfg.PID)
		}
	}
	if err != nil {
		return b.Dismiss(Fault{wire.CodeLayout, err.Error()})
	}
	b.set.layout = layout
	e := Share{Epoch: b.epoch + 1, Elements: layout.Elements(), Layout: layout}
	e.Saves, e.State = b.set.private()
	for i, r := range ranks {
		e.Shares = append(e.Shares, Send{r.conn, r.id, &wire.Share{
			Elements: e.Elements, Epoch: e.Epoch, Writes: writes[i],
		}})
		r.laid = new(wire.Layout) // it may be large, and nobody needs it any more
	}
	b.set.heard(now)
	return []Effect{e}
}

// Shared says that the memory of the set is there, and that the messages of its Share go out before
// what this returns.
func (b *Box) Shared(now time.Time) []Effect {
	b.layout, b.set.shares = b.set.layout, true
	b.epoch++
	b.set.heard(now)
	if b.info == nil {
		return nil
	}
	return b.Tell(b.info)
}

// Unshared sends a set away whose memory could not be had. It does not count as one that has shared
// any, and the first one's model is not kept: a smaller one may come next.
func (b *Box) Unshared(f Fault) []Effect {
	b.set.layout = nil
	return b.Dismiss(f)
}
