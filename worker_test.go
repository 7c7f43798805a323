package p2pdiloco

import (
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// A contribution stands until a record lists it as this peer's: another's may be of the same bytes, and then this one is still asked for.
func TestAContributionIsSpentByItsOwnPeersOffer(t *testing.T) {
	root := Root{7}
	for _, c := range []struct {
		name   string
		record slot.Record
		kept   bool
	}{
		{"listed", slot.Record{Slot: 5, Contributions: []slot.Offer{{Peer: "other"}, {Peer: "self", Root: root}}}, false},
		{"another peer's equal bytes", slot.Record{Slot: 5, Contributions: []slot.Offer{{Peer: "other", Root: root}}}, true},
		{"this peer's other bytes", slot.Record{Slot: 5, Contributions: []slot.Offer{{Peer: "self"}}}, true},
		{"too stale", slot.Record{Slot: 6}, false},
	} {
		w := &worker{self: "self", spec: Spec{Discount: []uint64{1000, 500}}}
		w.mu.own = map[slot.Root]contribution{root: {base: 4}}
		w.spend(c.record)
		if _, kept := w.mu.own[root]; kept != c.kept {
			t.Errorf("%s: kept %v", c.name, kept)
		}
	}
}
