package p2pdiloco

import (
	"slices"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership"
)

// The terms of certified records that were lost are counted, the tries within a term are not, and
// the newest slots are kept, each once. What a status has does not change any more.
func TestLostTerms(t *testing.T) {
	l := &ledgerEvents{run: "books", emit: func(string, map[string]any) {}}
	newest := func() LostTerms { _, lost := l.seen(); return lost }
	tell := func(kind membership.EventKind, slotNumber uint64, ballot uint32) {
		l.Tell(membership.Event{Kind: kind, Slot: slotNumber, Ballot: ballot})
	}
	tell(membership.EventCertified, 1, slot.Tries-1)
	tell(membership.EventProposed, 1, 5*slot.Tries)
	if lost := newest(); lost.Terms != 0 || lost.Slots != nil {
		t.Fatalf("%+v", lost)
	}
	for n := range uint64(maxLostSlots) {
		tell(membership.EventCertified, 2+n, slot.Tries)
	}
	before := newest()
	tell(membership.EventCertified, 9, 2*slot.Tries+3)
	tell(membership.EventCertified, 9, slot.Tries)
	if lost := newest(); lost.Terms != maxLostSlots+3 || !slices.Equal(lost.Slots, []uint64{3, 4, 5, 6, 9}) {
		t.Errorf("%+v", lost)
	}
	if before.Terms != maxLostSlots || !slices.Equal(before.Slots, []uint64{2, 3, 4, 5, 6}) {
		t.Errorf("a status has changed: %+v", before)
	}
}
