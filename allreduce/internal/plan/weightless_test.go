package plan

import (
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// TestAPlanOfNothing: an offer that weighs nothing is refused with its plan, like a stale one. What
// aggregates relies on that: where nobody of a group weighed anything, owners ended.
func TestAPlanOfNothing(t *testing.T) {
	p := testParams(1<<12, 1<<10)
	pl := slot.Plan{Slot: 7, Offers: offersOf(3)}
	for i := range pl.Offers {
		pl.Offers[i].Base, pl.Offers[i].Weight = 6, 1
	}
	pl.Pieces, pl.Ring = p.Planner()(pl, slot.Links{})
	if err := Check(p, pl); err != nil {
		t.Fatal(err)
	}
	pl.Offers[1].Weight = 0
	if err := Check(p, pl); err == nil || !strings.Contains(err.Error(), "weighs nothing") {
		t.Errorf("one of three offers weighs nothing: %v", err)
	}
}
