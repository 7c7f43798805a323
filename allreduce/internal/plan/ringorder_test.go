package plan

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// linksOf makes links of n peers of unknown speed, which change edits.
func linksOf(n int, change func(l slot.Links)) slot.Links {
	l := slot.Links{Ways: make([][]slot.Link, n), Uplinks: make([]slot.Link, n)}
	for i := range l.Ways {
		l.Ways[i] = slices.Repeat([]slot.Link{slot.LinkDirect}, n)
	}
	if change != nil {
		change(l)
	}
	return l
}

func apart(l slot.Links, i, j int) { l.Ways[i][j], l.Ways[j][i] = slot.LinkNone, slot.LinkNone }

func offersOf(n int) (os []slot.Offer) {
	for i := range n {
		os = append(os, slot.Offer{Peer: peerName(i), Weight: 1})
	}
	return os
}

func TestChoose(t *testing.T) {
	// pairs within a site are ten times as fast as those between; each peer is as fast as any
	twoSites := func(l slot.Links) {
		for i := range l.Ways {
			for j := range l.Ways {
				l.Ways[i][j] = slot.LinkOf(1000)
				if i%2 == j%2 {
					l.Ways[i][j] = slot.LinkOf(100_000)
				}
			}
		}
	}
	bridge := func(l slot.Links) { // as twoSites, with two fast pairs between them
		twoSites(l)
		for _, p := range [][2]int{{0, 1}, {2, 3}} {
			l.Ways[p[0]][p[1]], l.Ways[p[1]][p[0]] = slot.LinkOf(100_000), slot.LinkOf(100_000)
		}
	}
	for _, c := range []struct {
		name     string
		schedule Schedule
		agg      Aggregator
		n        int
		links    slot.Links
		ring     bool
	}{
		{"rotation is as it is", Rotation, Mean, 4, linksOf(4, func(l slot.Links) { apart(l, 0, 1) }), false},
		{"nothing said is rotation", "", Mean, 4, linksOf(4, func(l slot.Links) { apart(l, 0, 1) }), false},
		{"ring is as it is", Ring, Median, 4, slot.Links{}, true},
		{"a ring of two", Ring, Mean, 2, slot.Links{}, true},
		{"a ring of one is none", Ring, Mean, 1, slot.Links{}, false},
		{"one failed", Ring, Mean, 4, slot.Links{NoRing: true}, false},
		{"nothing known", Auto, Mean, 4, slot.Links{}, false},
		{"nothing against it", Auto, TrimmedMean, 4, linksOf(4, nil), false},
		{"equal speeds", Auto, Mean, 4, linksOf(4, func(l slot.Links) { twoSites(l); clearSpeeds(l) }), false},
		{"a pair apart", Auto, Mean, 4, linksOf(4, func(l slot.Links) { apart(l, 0, 3) }), true},
		{"a pair apart, but robust", Auto, TrimmedMean, 4, linksOf(4, func(l slot.Links) { apart(l, 0, 3) }), false},
		{
			"a pair apart, says one of them", Auto, TrimmedMean, 4,
			linksOf(4, func(l slot.Links) { l.Ways[0][3] = slot.LinkNone }), false,
		},
		{
			"a pair of three apart: no ring goes round", Auto, Mean, 3,
			linksOf(3, func(l slot.Links) { apart(l, 0, 1) }),
			false,
		},
		{
			"a peer with one neighbour", Auto, Mean, 4,
			linksOf(4, func(l slot.Links) { apart(l, 0, 1); apart(l, 0, 2) }),
			false,
		},
		{"slow pairs that a ring avoids", Auto, Mean, 6, linksOf(6, bridge), true},
		{"the same, but robust", Auto, TrimmedMean, 6, linksOf(6, bridge), false},
	} {
		p := testParams(4000, 10)
		p.Schedule, p.Aggregator = c.schedule, c.agg
		ring := p.choose(offersOf(c.n), c.links)
		if (ring != nil) != c.ring {
			t.Errorf("%s: %v", c.name, ring)
		}
		for i, from := range ring {
			if c.links.Between(int(from), int(ring[(i+1)%len(ring)])) == slot.LinkNone {
				t.Errorf("%s: ring %v has neighbours that cannot connect", c.name, ring)
			}
		}
		if !slot.RingOf(ring, c.n) {
			t.Errorf("%s: %v is no ring", c.name, ring)
		}
	}
}

func clearSpeeds(l slot.Links) {
	for i := range l.Ways {
		for j := range l.Ways {
			l.Ways[i][j] = slot.LinkOf(5000)
		}
	}
}

// With no speed known the order is that of the peers; with some, the slowest step is never slower
// than that.
func TestRingOrder(t *testing.T) {
	if order, closed := ringOrder(5, slot.Links{}); !slices.Equal(order, []uint16{0, 1, 2, 3, 4}) || !closed {
		t.Errorf("%v, %v", order, closed)
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 9).Draw(t, "n")
		l := linksOf(n, func(l slot.Links) {
			for i := range n {
				for j := range n {
					l.Ways[i][j] = slot.LinkOf(rapid.SampledFrom([]uint32{1, 10, 100, 1000}).Draw(t, "speed"))
				}
			}
		})
		order, _ := ringOrder(n, l)
		again, _ := ringOrder(n, l)
		if !slot.RingOf(order, n) || !slices.Equal(order, again) {
			t.Fatalf("%v, then %v", order, again)
		}
		if n > 2 {
			speeds := pairSpeeds(n, l)
			slowest := func(order []uint16) float64 {
				low := math.Inf(1)
				for i := range order {
					low = min(low, speeds[order[i]][order[(i+1)%n]])
				}
				return low
			}
			plain := make([]uint16, n)
			for i := range plain {
				plain[i] = uint16(i)
			}
			if best := bestRing(n, slowest); slowest(order) < best/100 || n <= 4 && slowest(order) < best {
				t.Errorf("slowest step %v, best %v", slowest(order), best)
			}
		}
	})
}

// bestRing tries all orders.
func bestRing(n int, slowest func([]uint16) float64) (best float64) {
	if n > 6 {
		return 0
	}
	order := make([]uint16, n)
	var try func(at int, used int)
	try = func(at, used int) {
		if at == n {
			best = max(best, slowest(order))
			return
		}
		for i := range n {
			if used&(1<<i) == 0 {
				order[at] = uint16(i)
				try(at+1, used|1<<i)
			}
		}
	}
	try(1, 1)
	return best
}

func TestShares(t *testing.T) {
	speeds := func(kBps ...uint32) slot.Links {
		return linksOf(len(kBps), func(l slot.Links) {
			for i, u := range kBps {
				l.Uplinks[i] = slot.LinkOf(u)
			}
		})
	}
	for _, c := range []struct {
		name string
		up   []uint32
		want []float64
	}{
		{"none known", []uint32{0, 0, 0, 0}, []float64{.25, .25, .25, .25}},
		{"about equal", []uint32{1000, 1200, 1400, 1000}, []float64{.25, .25, .25, .25}},
		{"two have no choice", []uint32{100, 100_000}, []float64{.5, .5}},
		{
			"one with a tenth owns nothing: its raw frames alone take longer than all else",
			[]uint32{1024, 1024, 1024, 102},
			[]float64{1. / 3, 1. / 3, 1. / 3, 0},
		},
		{"one of unknown speed is as the others", []uint32{1024, 0, 1024, 102}, []float64{1. / 3, 1. / 3, 1. / 3, 0}},
		{
			"a claim gains twice the equal share at most",
			[]uint32{1 << 31, 1000, 1000, 1000},
			[]float64{.5, 1. / 6, 1. / 6, 1. / 6},
		},
		{"four fast ones", []uint32{2048, 1024, 1024, 1024, 1024}, []float64{0.4, .15, .15, .15, .15}},
	} {
		got, _ := shares(len(c.up), speeds(c.up...))
		for i := range got {
			if math.Abs(got[i]-c.want[i]) > 0.01 {
				t.Errorf("%s: shares %v, want %v", c.name, got, c.want)
				break
			}
		}
	}
}

// The shares are the best there are within the bound: moving a little of one to another makes the
// slowest peer no faster.
func TestSharesAreTheBest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(3, 9).Draw(t, "n")
		l := linksOf(n, func(l slot.Links) {
			for i := range n {
				l.Uplinks[i] = slot.LinkOf(rapid.Uint32Range(500, 20_000).Draw(t, "uplink"))
			}
		})
		share, uneven := shares(n, l)
		if !uneven {
			return
		}
		slowest := func(s []float64) (worst float64) {
			for i := range s {
				worst = max(worst, (1+float64(n-2)*s[i])/l.Uplink(i))
			}
			return worst
		}
		sum, was := 0.0, slowest(share)
		for i, s := range share {
			sum += s
			if s < 0 || s > maxShare/float64(n)+1e-9 {
				t.Errorf("share %d is %v", i, s)
			}
			for j := range share {
				moved := slices.Clone(share)
				d := min(0.001, moved[i], maxShare/float64(n)-moved[j])
				moved[i], moved[j] = moved[i]-d, moved[j]+d
				if d > 0 && slowest(moved) < was*(1-1e-9) {
					t.Errorf("%v from %d to %d takes %v instead of %v", d, i, j, slowest(moved), was)
				}
			}
		}
		if math.Abs(sum-1) > 1e-9 {
			t.Errorf("the shares add up to %v", sum)
		}
	})
}

// The order of a ring is looked for only where some ring may pay; and none that would is missed.
func TestRingLeastIsTheLeast(t *testing.T) {
	p := testParams(4000, 10)
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 9).Draw(t, "n")
		speed := rapid.SampledFrom([]uint32{0, 10, 100, 1000})
		l := linksOf(n, func(l slot.Links) {
			for i := range n {
				l.Uplinks[i] = slot.LinkOf(speed.Draw(t, "uplink"))
				for j := range n {
					l.Ways[i][j] = slot.LinkOf(speed.Draw(t, "speed"))
				}
			}
		})
		order, _ := ringOrder(n, l)
		if least, cost := ringLeast(p, n, l), ringCost(p, order, l); least > cost*(1+1e-9) {
			t.Fatalf("at least %v, but %v", least, cost)
		}
	})
	for _, l := range []slot.Links{{}, linksOf(6, clearSpeeds)} {
		share, _ := shares(6, l)
		if ringLeast(p, 6, l) < ringGain*rotationCost(share, l) {
			t.Error("a ring is looked for where all speeds are equal")
		}
	}
}

// Plans by links are plans: whatever is said, pieces cover the fragment, and no owner gets more
// than its bound.
func TestPlannerByLinks(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 300 {
		n := 1 + rng.IntN(12)
		p := testParams(1+rng.IntN(9000), 1+rng.IntN(40))
		p.Schedule = Schedules()[rng.IntN(3)]
		p.Aggregator = Aggregators()[rng.IntN(3)]
		l := linksOf(n, func(l slot.Links) {
			for i := range n {
				l.Uplinks[i] = slot.Link(rng.IntN(256))
				for j := range n {
					l.Ways[i][j] = slot.Link(rng.IntN(256))
				}
			}
		})
		plan := slot.Plan{Slot: 7, Offers: offersOf(n)}
		for i := range plan.Offers {
			plan.Offers[i].Base = 6
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
		plan.Gone = slot.NewBitmap(n)
		plan.Gone.Set(rng.IntN(n))
		ring := plan.Ring
		if plan.Pieces, plan.Ring = p.Planner()(plan, slot.Links{}); !slices.Equal(plan.Ring, ring) {
			t.Errorf("ring %v becomes %v within the group", ring, plan.Ring)
		}
	}
}

// Partial results are float32 whatever the codec: what is few bits in a rotation is dear in a ring.
func TestRingCostsMoreOfCompressed(t *testing.T) {
	p := testParams(4000, 10)
	p.Aggregator = Mean
	links, order := linksOf(4, clearSpeeds), []uint16{0, 1, 2, 3}
	plain := ringCost(p, order, links)
	p.Codec = codec.Int8
	if got := ringCost(p, order, links); got < 2*plain || got > 2.5*plain { // (4+1)/2
		t.Errorf("cost %v of int8, %v of f32", got, plain)
	}
}

// Who passes partial results on could change them: a leader cannot turn a run to a ring that its
// spec did not ask for.
func TestRingsOnlyWhereTheRunHasThem(t *testing.T) {
	for _, c := range []struct {
		schedule Schedule
		agg      Aggregator
		allowed  bool
	}{
		{"", Mean, false},
		{Rotation, Mean, false},
		{Rotation, TrimmedMean, false},
		{Auto, Mean, true},
		{Auto, TrimmedMean, false},
		{Auto, Median, false},
		{Ring, Mean, true},
		{Ring, Median, true},
	} {
		p := testParams(4000, 10)
		p.Schedule, p.Aggregator = c.schedule, c.agg
		plan := slot.Plan{Slot: 1, Offers: offersOf(3), Ring: []uint16{0, 1, 2}}
		plan.Pieces = Pieces(p, 0, plan.Offers)
		if err := Check(p, plan); (err == nil) != c.allowed {
			t.Errorf("schedule %q, %s: %v", c.schedule, c.agg, err)
		}
	}
}
