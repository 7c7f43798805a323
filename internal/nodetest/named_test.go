package nodetest

import (
	"fmt"
	"iter"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

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

// taken are the slots whose steps have taken a contribution of a peer.
func (b *bout) taken(p *Peer) (slots []uint64) {
	its := func(o slot.Offer) bool { return o.Peer == b.s.ID(p) }
	for r := range b.steps() {
		if slices.ContainsFunc(r.Contributions, its) {
			slots = append(slots, r.Slot)
		}
	}
	return slots
}

// late says of a bad peer why it should have been named earlier; empty: it was named in time. A
// newcomer takes turns with others, so a step may have taken few of its contributions so far.
func (b *bout) late(p *Peer) string {
	began, at := b.began(p), b.firstNamed(p)
	if began == 0 {
		return ""
	}
	named := at > 0
	n := 0 // contributions from which it could be told
	for _, slotNumber := range b.taken(p) {
		if slotNumber >= began && (!named || slotNumber < at) {
			n++
		}
	}
	switch after := at + 1 - min(began, at); {
	case !named && n >= judged:
		return fmt.Sprintf("a bad peer is not named, of %d contributions", n)
	case named && after > namedWithin && n > judged:
		return fmt.Sprintf("named after %d slots and %d contributions, not within %d or %d", after, n, namedWithin,
			judged)
	}
	return ""
}
