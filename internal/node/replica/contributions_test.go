package replica

import (
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// A contribution stands until a record lists it as this peer's. Where another peer's contribution
// of the same bytes is listed, this one is still asked for.
func TestAContributionIsSettledByItsOwnPeersOffer(t *testing.T) {
	root := slot.Root{7}
	for _, c := range []struct {
		name   string
		record slot.Record
		kept   bool
	}{
		{
			"listed",
			slot.Record{Slot: 5, Contributions: []slot.Offer{{Peer: "other"}, {Peer: "self", Root: root}}},
			false,
		},
		{
			"another peer's equal bytes",
			slot.Record{Slot: 5, Contributions: []slot.Offer{{Peer: "other", Root: root}}},
			true,
		},
		{"this peer's other bytes", slot.Record{Slot: 5, Contributions: []slot.Offer{{Peer: "self"}}}, true},
		{"too stale", slot.Record{Slot: 6}, false},
	} {
		own := &contributions{self: "self", maxStaleness: 1}
		own.mu.open = map[slot.Root]Contribution{root: {Base: 4}}
		own.settle(c.record)
		if _, kept := own.mu.open[root]; kept != c.kept {
			t.Errorf("%s: kept %v", c.name, kept)
		}
	}
}
