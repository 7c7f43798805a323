package replica

import (
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

func TestStatsOfARecord(t *testing.T) {
	got := statsOf(slot.Record{Slot: 9, Contributions: []slot.Offer{
		{Base: 8, Weight: 10},
		{Base: 5, Weight: 20},
		{Base: 8, Weight: 3},
	}}, slot.Weighing{})
	if got.Contributors != 3 || got.Weight != 33 || got.Staleness != 1 || got.MaxStaleness != 3 {
		t.Errorf("%+v", got)
	}
	liar := slot.Record{Slot: 9, Contributions: []slot.Offer{{Base: 8, Weight: 1 << 50}, {Base: 8, Weight: 10}}}
	if got := statsOf(liar, slot.Weighing{Ratio: 8, Usual: 12}); got.Weight != 8*12+10 {
		t.Errorf("a claim of 2^50: %+v", got)
	}
	if got := statsOf(slot.Record{Slot: 9}, slot.Weighing{Ratio: 8}); got.Staleness != 0 {
		t.Errorf("an empty one: %+v", got)
	}
}
