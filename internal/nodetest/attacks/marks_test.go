package attacks

import (
	"fmt"
	"iter"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
)

// marks counts contributions, and those of them that owners have marked as against the others in
// more than half of the elements.
type marks struct {
	Marked int `json:"marked"`
	Of     int `json:"of"`
}

func (m *marks) add(of marks) { m.Marked, m.Of = m.Marked+of.Marked, m.Of+of.Of }

func (m marks) String() string {
	if m.Of == 0 {
		return "-"
	}
	return fmt.Sprintf("%d of %d", m.Marked, m.Of)
}

// steps are the records of all steps.
func (b *bout) steps() iter.Seq[slot.Record] {
	return func(yield func(slot.Record) bool) {
		for height := uint64(1); ; height++ {
			c, ok := b.ledger.Record(height)
			if !ok || c.Record.Kind == slot.Step && !yield(c.Record) {
				return
			}
		}
	}
}

// taken counts the contributions of a peer that steps have taken, from a slot on.
func (b *bout) taken(p *nodetest.Peer, from uint64) (n int) {
	its := func(o slot.Offer) bool { return o.Peer == b.s.ID(p) }
	for r := range b.steps() {
		if r.Slot >= from && slices.ContainsFunc(r.Contributions, its) {
			n++
		}
	}
	return n
}

// marked counts the marks in the records of all steps in which bad peers may lie.
func (b *bout) marked(honest, bad *marks) {
	liar := map[slot.PeerID]bool{}
	for _, p := range b.bad {
		liar[b.s.ID(p)] = true
	}
	for r := range b.steps() {
		if r.Slot < firstLie && b.attack.founders == 0 {
			continue
		}
		against := chain.Against(r)
		for i, o := range r.Contributions {
			to := honest
			if liar[o.Peer] {
				to = bad
			}
			to.Of++
			if against.Has(i) {
				to.Marked++
			}
		}
	}
}
