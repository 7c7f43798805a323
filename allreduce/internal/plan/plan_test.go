package plan

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

func testParams(elements, frame int) Params {
	return Params{
		Fragments: []uint64{uint64(elements)}, FrameElements: frame, Aggregator: Mean, TrimPermille: 250,
		Discount: []uint32{1000, 500, 250}, Codec: "f32", Schedule: Ring, // plans may have one
	}
}

// testPlan is a plan of n peers that has no pieces yet.
func testPlan(n int) slot.Plan {
	p := slot.Plan{Slot: 7, Gone: slot.NewBitmap(n)}
	for i := range n {
		p.Offers = append(p.Offers, slot.Offer{Peer: slot.PeerID(fmt.Sprintf("peer-%02d", i)), Base: 6, Weight: 1})
	}
	return p
}

// However often owners go, plans are plans: pieces join, cover the vector, lie on the grid, and
// nobody gone owns any. They are balanced at first, whatever the order of the offers; what living
// peers own stays theirs, and what is free is shared out evenly among them.
func TestDivide(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := testParams(rapid.IntRange(1, 1<<14).Draw(t, "elements"), rapid.IntRange(1, 1<<14).Draw(t, "frame"))
		g, plan := NewGrid(p, 0), testPlan(rapid.IntRange(1, 40).Draw(t, "peers"))
		mixed := rapid.Permutation(plan.Offers).Draw(t, "order")
		before := plan
		for round := range mixed {
			plan.Pieces = Divide(p, plan, nil)
			if err := Check(p, plan); err != nil {
				t.Fatal(err)
			}
			owned := func(plan slot.Plan, owner slot.PeerID) (frames int) {
				for _, piece := range plan.Pieces {
					if first, last := g.FramesOf(piece.Range); piece.Owner == owner {
						frames += last - first
					}
				}
				return frames
			}
			least, most := math.MaxInt, 0
			for i, o := range plan.Offers {
				if !plan.Gone.Has(i) {
					more := owned(plan, o.Peer) - owned(before, o.Peer)
					least, most = min(least, more), max(most, more)
				}
			}
			if most-least > 1 {
				t.Fatalf("somebody got %d frames, and somebody %d", least, most)
			}
			for _, piece := range before.Pieces {
				if !plan.Gone.Has(plan.Place(piece.Owner)) && !slices.Contains(plan.Pieces, piece) {
					t.Fatalf("%s owned %v and does no more", piece.Owner, piece.Range)
				}
			}
			byOwner := func(a, b slot.Piece) int { return strings.Compare(string(a.Owner), string(b.Owner)) }
			if round == 0 &&
				(!slices.Equal(Pieces(p, 0, mixed), plan.Pieces) || !slices.IsSortedFunc(plan.Pieces, byOwner)) {
				t.Fatal("the pieces depend on the order of the offers, or are not in that of the peers")
			}
			before = plan
			plan.Gone = slices.Clone(plan.Gone)
			plan.Gone.Set(plan.Place(mixed[round].Peer))
		}
	})
	p, plan := testParams(3*slot.MaxSegments, 1), testPlan(4) // their number stays within the cap
	plan.Gone.Set(0)
	for i := range uint64(slot.MaxSegments) {
		owner := plan.Offers[min(i, 3)].Peer
		plan.Pieces = append(plan.Pieces, slot.Piece{Range: slot.Range{Begin: 3 * i, End: 3*i + 3}, Owner: owner})
	}
	plan.Pieces = Divide(p, plan, nil)
	if err := Check(p, plan); err != nil {
		t.Error(err)
	}
	if pieces, ring := p.Planner()(slot.Plan{}, slot.Links{}); pieces != nil || ring != nil {
		t.Errorf("without offers: %v, %v", pieces, ring)
	}
}

// What does not fit the run is refused: an offer that weighs nothing, too, for where nobody of a
// group weighs anything there is no mean; and a ring that the spec did not ask for, for who passes
// partial results on could change them.
func TestCheck(t *testing.T) {
	var p Params
	var pl slot.Plan
	three := []uint16{0, 1, 2}
	for name, change := range map[string]func(){
		"":                      func() {},
		"in slot":               func() { pl.Slot++ },
		"for fragment":          func() { pl.Fragment = 1 << 31 },
		"0 offers":              func() { pl.Offers = nil },
		"stale":                 func() { pl.Offers[1].Base = 1 },
		"base":                  func() { pl.Offers[1].Base = pl.Slot },
		"weighs nothing":        func() { pl.Offers[1].Weight = 0 },
		"order of their peers":  func() { slices.Reverse(pl.Offers) },
		"no bitmap":             func() { pl.Gone = slot.NewBitmap(20) },
		"0 pieces":              func() { pl.Pieces = nil },
		"join at element 0":     func() { pl.Pieces = pl.Pieces[1:] },
		"end at element":        func() { pl.Pieces = pl.Pieces[:1] },
		"0..319":                func() { pl.Pieces[0].Range.End--; pl.Pieces[1].Range.Begin-- },
		"not on the frame grid": func() { pl.Pieces[2].Range.End++ },
		"not in the group":      func() { pl.Pieces[1].Owner = "stranger" },
		"or gone":               func() { pl.Gone.Set(1) },
		"no order":              func() { pl.Ring = []uint16{0, 1, 1} },
		`"" and`:                func() { p.Schedule, pl.Ring = "", three },
		`"rotation" and`:        func() { p.Schedule, pl.Ring = Rotation, three },
		`"auto" and`:            func() { p.Schedule, p.Aggregator, pl.Ring = Auto, TrimmedMean, three },
	} {
		p, pl = testParams(1000, 64), testPlan(3)
		p.Fragments = []uint64{900, 1000, 900} // slot 7 has fragment 1
		pl.Fragment = slot.FragmentOf(pl.Slot, 3)
		pl.Pieces = Pieces(p, pl.Fragment, pl.Offers)
		change()
		if err := Check(p, pl); (err == nil) != (name == "") || err != nil && !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, p := range []Params{{Schedule: Ring, Aggregator: Median}, {Schedule: Auto, Aggregator: Mean}} {
		if !p.Rings() {
			t.Errorf("%+v has no rings", p)
		}
	}
}

// All faults of params are said at once.
func TestValidate(t *testing.T) {
	many, large := Params{
		Fragments: make([]uint64, slot.MaxFragments+1), FrameElements: 0, Aggregator: "best", Codec: "f33",
	}.Validate(), Params{Fragments: []uint64{1 << 40}, FrameElements: 1 << 19, Codec: codec.F32}.Validate()
	for _, word := range []string{
		"f33", "best", "fragments", "fragment 1 has no", "1048576 frames",
	} {
		if !strings.Contains(many.Error()+large.Error(), word) {
			t.Errorf("the errors do not name %s: %v, %v", word, many, large)
		}
	}
}

func TestTrimAndTolerated(t *testing.T) {
	for _, c := range []struct{ permille, n, trim, median int }{
		{200, 0, 0, 0},
		{200, 1, 0, 0},
		{200, 4, 0, 1},
		{200, 5, 1, 2},
		{200, 9, 1, 4},
		{200, 10, 2, 4},
		{250, 4, 1, 1},
		{499, 1000, 499, 499},
		{0, 9, 0, 4},
	} {
		got := []int{Trim(c.permille, c.n)}
		for _, a := range Aggregators() {
			got = append(got, Tolerated(a, c.permille, c.n))
		}
		if want := []int{c.trim, 0, c.trim, c.median}; !slices.Equal(got, want) {
			t.Errorf("of %d, trimming %d: %v, want %v", c.n, c.permille, got, want)
		}
	}
}

// Weights that would overflow with their discount saturate: all count the same.
func TestHugeWeights(t *testing.T) {
	plan := testPlan(2)
	plan.Offers[0].Weight, plan.Offers[1].Weight, plan.Offers[1].Base = math.MaxUint64, math.MaxUint64, 4
	agg, err := NewAggregation(testParams(10, 10), plan.Slot, 0, plan.Offers)
	if err != nil || agg.Scale[0] != agg.Scale[1] {
		t.Errorf("scales %v (%v)", agg.Scale, err)
	}
}

// What both sides take as the window keeps an owner's memory bounded, decoded values included.
func TestWindow(t *testing.T) {
	for _, name := range codec.Names() {
		for _, n := range []int{1, 4, 64, slot.MaxMembers} {
			for _, frame := range []int{1 << 10, 1 << 16, 1 << 18, MaxFrameElements} {
				p := testParams(1<<26, frame)
				p.Codec = name
				g := NewGrid(p, 0)
				w, held := g.Window(n), g.FrameBytes
				if name != codec.F32 {
					held += 4 * frame
				}
				if w < MinWindow || w > maxWindow || w > MinWindow && w*n*held > WindowBytes {
					t.Errorf("%s: window of %d frames of %d bytes for %d peers", name, w, held, n)
				}
			}
		}
	}
}

// A ring that would hold or send too much is none: the leader takes a rotation, and a peer that is
// told to take part in one refuses.
func TestRingBudget(t *testing.T) {
	for _, c := range []struct {
		name               string
		elements, frame, n int
		agg                Aggregator
		ring               bool
	}{
		{"small", 1 << 16, 1 << 10, 16, Median, true},
		{"too many lanes", 1 << 16, 1 << 10, 17, Median, false},
		{"far too many lanes", 1 << 16, 1 << 10, 64, Median, false},
		{"large frames, one lane", 1 << 27, 1 << 22, 16, Mean, true},
		{"large frames, many lanes", 1 << 27, 1 << 22, 12, Median, false},
		{"large frames, many pieces", 1 << 28, 1 << 22, 17, Mean, false},
	} {
		p, pl := testParams(c.elements, c.frame), testPlan(c.n)
		p.Aggregator = c.agg
		pl.Pieces, pl.Ring = p.Planner()(pl, slot.Links{})
		if err := Check(p, pl); err != nil || (pl.Ring != nil) != c.ring {
			t.Errorf("%s: a ring %v: %v", c.name, pl.Ring, err)
		}
		pl.Ring, _ = ringOrder(c.n, slot.Links{})
		if err := Check(p, pl); (err == nil) != c.ring {
			t.Errorf("%s: a plan with a ring: %v", c.name, err)
		}
	}
	// Where deaths cut pieces up until there are too many, the planner says that there is none, and
	// the group ends.
	p, pl := testParams(1<<28, 1<<22), testPlan(16)
	pl.Pieces, pl.Ring = p.Planner()(pl, slot.Links{})
	for gone := 0; ; gone++ {
		pl.Gone.Set(gone)
		pieces, ring := p.Planner()(pl, slot.Links{})
		pl.Pieces = pieces
		if err := Check(p, pl); (err == nil) != (ring != nil) || gone == 7 {
			t.Fatalf("%d are gone, and the ring is %v: %v", gone, ring, err)
		}
		if ring == nil {
			return
		}
	}
}

// Peers that must not own pieces own some only if nobody else is left.
func TestPlannerLeavesOutNoOwners(t *testing.T) {
	p, plan := testParams(60, 10), testPlan(4)
	p.Schedule = Rotation
	for gone, want := range []string{"peer-00 peer-02", "peer-02 peer-02", "", "peer-01 peer-03"} {
		if want == "" {
			continue
		}
		plan.Pieces, _ = p.Planner()(plan, slot.Links{
			NoOwner: []bool{false, true, false, true},
			Uplinks: []slot.Link{slot.LinkOf(100), slot.LinkOf(1000), slot.LinkOf(100), slot.LinkOf(1000)},
		})
		var got []string
		for _, piece := range plan.Pieces {
			got = append(got, string(piece.Owner))
		}
		if slices.Sort(got); strings.Join(got, " ") != want {
			t.Errorf("pieces of %v, want %s", got, want)
		}
		plan.Gone.Set(gone * 2)
	}
}

// Plans by links are plans: whatever is said, pieces cover the fragment, and no owner gets more
// than its bound.
func TestPlannerByLinks(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 300 {
		n := 1 + rng.IntN(12)
		p, plan := testParams(1+rng.IntN(9000), 1+rng.IntN(40)), testPlan(n)
		p.Schedule, p.Aggregator = []Schedule{Auto, Rotation, Ring}[rng.IntN(3)], Aggregators()[rng.IntN(3)]
		l := linksOf(n)
		for i := range n {
			l.Uplinks[i] = slot.Link(rng.IntN(256))
			for j := range n {
				l.Ways[i][j] = slot.Link(rng.IntN(256))
			}
		}
		plan.Pieces, plan.Ring = p.Planner()(plan, l)
		if err := Check(p, plan); err != nil {
			t.Fatal(err)
		}
		for _, piece := range plan.Pieces {
			if most := maxShare*p.Fragments[0]/uint64(n) + 2*uint64(p.FrameElements); piece.Range.Len() > most {
				t.Errorf("a piece of %d elements, at most %d", piece.Range.Len(), most)
			}
		}
		plan.Gone.Set(rng.IntN(n))
		if _, ring := p.Planner()(plan, slot.Links{}); !slices.Equal(plan.Ring, ring) {
			t.Errorf("ring %v becomes %v within the group", plan.Ring, ring)
		}
	}
}
