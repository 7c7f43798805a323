package plan

import (
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// A ring that would hold or send too much is none: the leader takes a rotation, and a peer that is
// told to take part in one refuses.
func TestRingBudget(t *testing.T) {
	for _, c := range []struct {
		name            string
		elements, frame int
		n               int
		agg             Aggregator
		ring            bool
	}{
		{"small", 1 << 16, 1 << 10, 16, Median, true},
		{"too many lanes", 1 << 16, 1 << 10, 17, Median, false},
		{"far too many lanes", 1 << 16, 1 << 10, 64, Median, false},
		{"large frames, one lane", 1 << 27, 1 << 22, 16, Mean, true},
		{"large frames, many lanes", 1 << 27, 1 << 22, 12, Median, false},
		{"large frames, many pieces", 1 << 28, 1 << 22, 17, Mean, false},
	} {
		p := testParams(c.elements, c.frame)
		p.Aggregator = c.agg
		pl := slot.Plan{Slot: 7, Offers: offersOf(c.n)}
		for i := range pl.Offers {
			pl.Offers[i].Base = 6
		}
		pl.Pieces, pl.Ring = p.Planner()(pl, slot.Links{})
		if (pl.Ring != nil) != c.ring {
			t.Errorf("%s: a ring %v", c.name, pl.Ring)
		}
		if err := Check(p, pl); err != nil {
			t.Errorf("%s: the own planan is refused: %v", c.name, err)
		}
		pl.Ring, _ = ringOrder(c.n, slot.Links{})
		if err := Check(p, pl); (err == nil) != c.ring {
			t.Errorf("%s: a plan with a ring: %v", c.name, err)
		}
	}
}

// Where deaths cut pieces up until there are too many for a ring, the planner says that there is
// none, and the group ends.
func TestRevisionsStayWithinTheBudget(t *testing.T) {
	p := testParams(1<<28, 1<<22)
	pl := slot.Plan{Slot: 7, Offers: offersOf(16), Gone: slot.NewBitmap(16)}
	for i := range pl.Offers {
		pl.Offers[i].Base = 6
	}
	pl.Pieces, pl.Ring = p.Planner()(pl, slot.Links{})
	for gone := range 8 {
		pl.Gone.Set(gone)
		var ring []uint16
		if pl.Pieces, ring = p.Planner()(pl, slot.Links{}); ring == nil {
			if p.CheckRing(NewGrid(p, 0), pl) == nil {
				t.Error("the ring is within bounds and was given up")
			}
			return
		}
		if err := Check(p, pl); err != nil {
			t.Fatal(err)
		}
	}
	t.Errorf("%d pieces", len(pl.Pieces))
}
