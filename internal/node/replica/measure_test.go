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
	}})
	if got.Contributors != 3 || got.Weight != 33 || got.Staleness != 1 || got.MaxStaleness != 3 {
		t.Errorf("%+v", got)
	}
	if got := statsOf(slot.Record{Slot: 9}); got.Staleness != 0 {
		t.Errorf("an empty one: %+v", got)
	}
}
