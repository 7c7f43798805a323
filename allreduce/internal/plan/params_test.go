package plan

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

func TestPieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := testParams(rapid.IntRange(1, 1<<20).Draw(t, "elements"), rapid.IntRange(1, 1<<20).Draw(t, "frame"))
		if err := p.Validate(); err != nil {
			t.Fatal(err)
		}
		plan := slot.Plan{Slot: 1}
		for i := range rapid.IntRange(1, 40).Draw(t, "peers") {
			plan.Offers = append(plan.Offers, slot.Offer{Peer: peerName(i), Weight: 1})
		}
		plan.Pieces = Pieces(p, 0, plan.Offers)
		if err := Check(p, plan); err != nil { // covers, joins, on the grid, owned by the group
			t.Fatal(err)
		}
		checkBalance(t, NewGrid(p, 0), plan)
		mixed := rapid.Permutation(plan.Offers).Draw(t, "order of arrival")
		if !slices.Equal(Pieces(p, 0, mixed), plan.Pieces) {
			t.Fatal("the pieces depend on the order of the offers")
		}
	})
}

func checkBalance(t *rapid.T, g Grid, plan slot.Plan) {
	least, most := math.MaxInt, 0
	for i, piece := range plan.Pieces {
		first, last := g.FramesOf(piece.Range)
		if g.Elements(first, last) != piece.Range {
			t.Fatalf("frames %d..%d are not range %v", first, last, piece.Range)
		}
		least, most = min(least, last-first), max(most, last-first)
		if i > 0 && plan.Pieces[i-1].Owner >= piece.Owner {
			t.Fatal("owners are not in the order of their IDs, one piece each")
		}
	}
	if len(plan.Pieces) < len(plan.Offers) {
		least = 0
	}
	if most-least > 1 {
		t.Fatalf("pieces of %d to %d frames", least, most)
	}
}

func checkInheritance(t *rapid.T, g Grid, before, after slot.Plan, gone slot.PeerID) {
	frames := func(plan slot.Plan, owner slot.PeerID) (n int) {
		for _, piece := range plan.Pieces {
			if first, last := g.FramesOf(piece.Range); piece.Owner == owner {
				n += last - first
			}
		}
		return n
	}
	least, most := math.MaxInt, 0
	for i, o := range after.Offers {
		if !after.Gone.Has(i) {
			more := frames(after, o.Peer) - frames(before, o.Peer)
			least, most = min(least, more), max(most, more)
		}
	}
	if most-least > 1 {
		t.Fatalf("the heirs got %d to %d frames", least, most)
	}
	for _, piece := range before.Pieces {
		if piece.Owner != gone && !slices.Contains(after.Pieces, piece) {
			t.Fatalf("%s owned %v and does no more", piece.Owner, piece.Range)
		}
	}
}

// However many pieces there are, their number stays within the cap.
func TestDivideIsBounded(t *testing.T) {
	p := testParams(3*slot.MaxSegments, 1)
	plan := slot.Plan{
		Slot: 1, Offers: offersOf(4),
		Gone: slot.Bitmap{1},
	}
	for i := range uint64(slot.MaxSegments) {
		owner := plan.Offers[min(i, 3)].Peer
		plan.Pieces = append(plan.Pieces, slot.Piece{Range: slot.Range{Begin: 3 * i, End: 3*i + 3}, Owner: owner})
	}
	plan.Pieces = Divide(p, plan)
	if err := Check(p, plan); err != nil {
		t.Error(err)
	}
}

func TestPiecesWithoutOffers(t *testing.T) {
	if p, ring := testParams(10, 1).Planner()(slot.Plan{}, slot.Links{}); p != nil || ring != nil {
		t.Errorf("got %v, %v", p, ring)
	}
}

// However often owners go: what living ones own stays theirs, and what is free is shared out evenly
// among them.
func TestDivideMovesOnlyWhatIsFree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := testParams(rapid.IntRange(1, 1<<14).Draw(t, "elements"), rapid.IntRange(1, 1<<6).Draw(t, "frame"))
		g := NewGrid(p, 0)
		plan := slot.Plan{Slot: 1}
		n := rapid.IntRange(1, 20).Draw(t, "peers")
		for i := range n {
			plan.Offers = append(plan.Offers, slot.Offer{Peer: peerName(i), Weight: 1})
		}
		plan.Gone = slot.NewBitmap(n)
		plan.Pieces = Divide(p, plan)
		for _, i := range rapid.Permutation(plan.Offers).Draw(t, "order of going")[1:] {
			before := plan
			plan.Gone = slices.Clone(plan.Gone)
			plan.Gone.Set(plan.Place(i.Peer))
			plan.Pieces = Divide(p, plan)
			if err := Check(p, plan); err != nil { // nobody gone owns anything
				t.Fatal(err)
			}
			checkInheritance(t, g, before, plan, i.Peer)
		}
	})
}

func TestTrimAndTolerated(t *testing.T) {
	for _, c := range []struct {
		permille, n, trim, median int
	}{
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
		if got := Trim(c.permille, c.n); got != c.trim {
			t.Errorf("Trim(%d, %d) = %d, want %d", c.permille, c.n, got, c.trim)
		}
		got := [3]int{
			Tolerated(Mean, c.permille, c.n), Tolerated(TrimmedMean, c.permille, c.n),
			Tolerated(Median, c.permille, c.n),
		}
		if want := [3]int{0, c.trim, c.median}; got != want {
			t.Errorf("Tolerated(%d, %d) = %v, want %v", c.permille, c.n, got, want)
		}
	}
}

// Peers that must not own pieces own some only if nobody else is left.
func TestPlannerLeavesOutNoOwners(t *testing.T) {
	p := testParams(60, 10)
	p.Schedule = Rotation
	plan := slot.Plan{Offers: []slot.Offer{{Peer: "a"}, {Peer: "b"}, {Peer: "c"}, {Peer: "d"}}, Gone: slot.NewBitmap(4)}
	owners := func() (got string) {
		plan.Pieces, _ = p.Planner()(plan, slot.Links{
			NoOwner: []bool{false, true, false, true},
			Uplinks: []slot.Link{slot.LinkOf(100), slot.LinkOf(1000), slot.LinkOf(100), slot.LinkOf(1000)},
		})
		for _, piece := range plan.Pieces {
			got += string(piece.Owner)
		}
		return got
	}
	if got := owners(); got != "ac" {
		t.Errorf("pieces of %s, of which b and d must own none", got)
	}
	plan.Gone.Set(0)
	if got := owners(); got != "cc" {
		t.Errorf("without a: pieces of %s", got)
	}
	plan.Gone.Set(2)
	if got := owners(); len(got) != 2 || got == "cc" {
		t.Errorf("without a and c: pieces of %s", got)
	}
}

// The staleness discount, and weights that would overflow with it.
func TestScales(t *testing.T) {
	offers := []slot.Offer{
		{Peer: "a", Base: 4, Weight: 30},
		{Peer: "b", Base: 3, Weight: 20},
		{Peer: "c", Base: 2, Weight: 240},
	}
	p := testParams(10, 10)
	for a, want := range map[Aggregator][]float32{
		Mean: {0.3, 0.1, 0.6}, TrimmedMean: {1, 0.5, 0.25},
		Median: {1, 0.5, 0.25},
	} {
		p.Aggregator = a
		agg, err := NewAggregation(p, 5, 0, offers)
		if err != nil || !slices.Equal(agg.Scale, want) {
			t.Errorf("%s: scales %v, want %v (%v)", a, agg.Scale, want, err)
		}
	}
	p.Aggregator = Mean
	for i := range offers {
		offers[i].Weight = math.MaxUint64 // saturates: all count the same
	}
	if agg, err := NewAggregation(p, 5, 0, offers); err != nil || agg.Scale[0] != agg.Scale[2] {
		t.Errorf("scales %v (%v)", agg.Scale, err)
	}
	p.Discount = nil
	if _, err := NewAggregation(p, 5, 0, offers); err == nil {
		t.Error("a stale offer was taken without a discount table")
	}
	if agg, err := NewAggregation(p, 5, 0, offers[:1]); err != nil || agg.Scale[0] != 1 {
		t.Errorf("%v (%v)", agg, err)
	}
}

func TestDefaultClip(t *testing.T) {
	for a, want := range map[Aggregator]bool{Mean: false, TrimmedMean: true, Median: true} {
		if a.DefaultClip() != want {
			t.Errorf("%s: clip %v", a, !want)
		}
	}
}

// What both sides take as the window keeps an owner's memory bounded.
func TestWindow(t *testing.T) {
	for _, n := range []int{1, 4, 64, slot.MaxMembers} {
		for _, frame := range []int{16, 1 << 16, 1 << 18, MaxFrameElements} {
			g := NewGrid(testParams(1<<24, frame), 0)
			w := g.Window(n)
			if w < MinWindow || w > maxWindow || (w > MinWindow && w*n*g.FrameBytes > WindowBytes) {
				t.Errorf("window of %d frames of %d bytes for %d peers", w, g.FrameBytes, n)
			}
		}
	}
}

func ExamplePieces() {
	p := Params{
		Fragments: []uint64{1000}, FrameElements: 64, Aggregator: TrimmedMean, TrimPermille: 250, Clip: true,
		Codec: "f32",
	}
	offers := []slot.Offer{{Peer: "a"}, {Peer: "b"}, {Peer: "c"}}
	for _, piece := range Pieces(p, 0, offers) {
		fmt.Println(string(piece.Owner), piece.Range.Begin, piece.Range.End)
	}
	// Output:
	// a 0 384
	// b 384 704
	// c 704 1000
}

// BenchmarkPlanOf500 is what the leader of a run of 500, each reaching all, takes to divide a slot,
// and to divide it again when one has died.
func BenchmarkPlanOf500(b *testing.B) {
	const n = 500
	links := slot.Links{Uplinks: make([]slot.Link, n)}
	var offers []slot.Offer
	for i := range n {
		offers = append(offers, slot.Offer{Peer: peerName(i), Weight: 1})
		links.Ways = append(links.Ways, slices.Repeat([]slot.Link{slot.LinkDirect}, n))
	}
	slices.SortFunc(offers, func(a, b slot.Offer) int { return cmp.Compare(a.Peer, b.Peer) })
	for _, schedule := range []Schedule{Rotation, Ring, Auto} {
		p := testParams(100_000_000, 64<<10)
		p.Aggregator, p.Schedule = Mean, schedule
		planner := p.Planner()
		plan := slot.Plan{Slot: 1, Offers: offers}
		b.Run(string(schedule), func(b *testing.B) {
			for b.Loop() {
				plan.Pieces, plan.Ring = planner(slot.Plan{Slot: 1, Offers: offers}, links)
			}
		})
		b.Run(string(schedule)+"/revised", func(b *testing.B) {
			again := plan
			again.Gone = slot.NewBitmap(n)
			again.Gone.Set(7)
			for b.Loop() {
				planner(again, links)
			}
		})
	}
}
