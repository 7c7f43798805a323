package plan

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// linksOf makes links of n peers of unknown speed, which changes edit.
func linksOf(n int, changes ...func(l slot.Links)) slot.Links {
	l := slot.Links{Ways: make([][]slot.Link, n), Uplinks: make([]slot.Link, n)}
	for i := range l.Ways {
		l.Ways[i] = slices.Repeat([]slot.Link{slot.LinkDirect}, n)
	}
	for _, change := range changes {
		change(l)
	}
	return l
}

// pair sets both ways between some peers, one after the other.
func pair(way slot.Link, peers ...int) func(slot.Links) {
	return func(l slot.Links) {
		for k := 0; k < len(peers); k += 2 {
			i, j := peers[k], peers[k+1]
			l.Ways[i][j], l.Ways[j][i] = way, way
		}
	}
}

func apart(peers ...int) func(slot.Links) { return pair(slot.LinkNone, peers...) }

// relayed makes ways between pairs those through a relay, of unknown speed if that is 0.
func relayed(kBps uint32, peers ...int) func(slot.Links) {
	return pair(slot.LinkOf(kBps).Way(true), peers...)
}

// up sets those of the first peers; one counts for all.
func up(kBps ...uint32) func(slot.Links) {
	return func(l slot.Links) {
		for i := range l.Uplinks {
			l.Uplinks[i] = slot.LinkOf(kBps[min(i, len(kBps)-1)])
		}
	}
}

// evenly sets the speeds of all ways.
func evenly(kBps uint32) func(slot.Links) {
	return func(l slot.Links) {
		for i := range l.Ways {
			for j := range i {
				pair(slot.LinkOf(kBps), i, j)(l)
			}
		}
	}
}

// drawn draws speeds of ways and uplinks, and which ways are relayed.
func drawn(t *rapid.T, relays bool, kBps ...uint32) func(slot.Links) {
	return func(l slot.Links) {
		speed := rapid.SampledFrom(kBps)
		for i := range l.Ways {
			l.Uplinks[i] = slot.LinkOf(speed.Draw(t, "uplink"))
			for j := range l.Ways {
				if relay := relays && rapid.IntRange(0, 2).Draw(t, "relayed") == 0; relay && i > j {
					relayed(speed.Draw(t, "relay"), i, j)(l)
				} else if !relays {
					l.Ways[i][j] = slot.LinkOf(speed.Draw(t, "way"))
				}
			}
		}
	}
}

func TestChoose(t *testing.T) {
	// pairs within a site are a hundred times as fast as those between
	sites := func(l slot.Links) {
		evenly(1000)(l)
		pair(slot.LinkOf(100_000), 0, 2, 0, 4, 2, 4, 1, 3, 1, 5, 3, 5)(l)
	}
	bridge := pair(slot.LinkOf(100_000), 0, 1, 2, 3) // but for two fast pairs between them
	for _, c := range []struct {
		name     string
		schedule Schedule
		agg      Aggregator
		n        int
		links    slot.Links
		ring     bool
	}{
		{"rotation is as it is", Rotation, Mean, 4, linksOf(4, apart(0, 1)), false},
		{"nothing said is rotation", "", Mean, 4, linksOf(4, apart(0, 1)), false},
		{"ring is as it is", Ring, Median, 4, slot.Links{}, true},
		{"a ring of two", Ring, Mean, 2, slot.Links{}, true},
		{"a ring of one is none", Ring, Mean, 1, slot.Links{}, false},
		{"one failed", Ring, Mean, 4, slot.Links{NoRing: true}, false},
		{"nothing known", Auto, Mean, 4, slot.Links{}, false},
		{"nothing against it", Auto, TrimmedMean, 4, linksOf(4), false},
		{"equal speeds", Auto, Mean, 4, linksOf(4, evenly(5000)), false},
		{"a pair apart", Auto, Mean, 4, linksOf(4, apart(0, 3)), true},
		{"a pair apart, but robust", Auto, TrimmedMean, 4, linksOf(4, apart(0, 3)), false},
		{"a pair of three apart: no ring goes round", Auto, Mean, 3, linksOf(3, apart(0, 1)), false},
		{"a peer with one neighbour", Auto, Mean, 4, linksOf(4, apart(0, 1, 0, 2)), false},
		{"slow pairs that a ring avoids", Auto, Mean, 6, linksOf(6, sites, bridge), true},
		{"the same, but robust", Auto, TrimmedMean, 6, linksOf(6, sites, bridge), false},
	} {
		p := testParams(4000, 10)
		p.Schedule, p.Aggregator = c.schedule, c.agg
		ring := p.choose(testPlan(c.n).Offers, c.links)
		if (ring != nil) != c.ring || !slot.RingOf(ring, c.n) {
			t.Errorf("%s: %v", c.name, ring)
		}
		for i, from := range ring {
			if c.links.Between(int(from), int(ring[(i+1)%len(ring)])) == slot.LinkNone {
				t.Errorf("%s: ring %v has neighbours that cannot connect", c.name, ring)
			}
		}
	}
}

// With no speed known the order is that of the peers; with some, the slowest step is never slower
// than that, and the best there is in small groups. The order of a ring is looked for only where
// some ring may pay; and none that would is missed.
func TestRingOrder(t *testing.T) {
	if order, closed := ringOrder(5, slot.Links{}); !slices.Equal(order, []uint16{0, 1, 2, 3, 4}) || !closed {
		t.Errorf("%v, %v", order, closed)
	}
	p := testParams(4000, 10)
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 9).Draw(t, "n")
		l := linksOf(n, drawn(t, false, 0, 1, 10, 100, 1000))
		order, _ := ringOrder(n, l)
		again, _ := ringOrder(n, l)
		if !slot.RingOf(order, n) || !slices.Equal(order, again) {
			t.Fatalf("%v, then %v", order, again)
		}
		speeds := pairSpeeds(n, l)
		slowest := func(order []uint16) float64 {
			low := math.Inf(1)
			for i := range order {
				low = min(low, speeds[order[i]][order[(i+1)%n]])
			}
			return low
		}
		if best := bestRing(n, slowest); n > 2 && (slowest(order) < best/100 || n <= 4 && slowest(order) < best) {
			t.Errorf("slowest step %v, best %v", slowest(order), best)
		}
		if least, cost := ringLeast(p, n, l), ringCost(p, order, l); least > cost*(1+1e-9) {
			t.Fatalf("at least %v, but %v", least, cost)
		}
	})
	for _, l := range []slot.Links{{}, linksOf(6, evenly(5000))} {
		if share, _ := shares(6, l); ringLeast(p, 6, l) < ringGain*rotationCost(share, l) {
			t.Error("a ring is looked for where all speeds are equal")
		}
	}
	// Partial results are float32 whatever the codec: what is few bits in a rotation is dear in a
	// ring.
	l, order := linksOf(4, evenly(5000)), []uint16{0, 1, 2, 3}
	plain := ringCost(p, order, l)
	p.Codec = codec.Int8
	if got := ringCost(p, order, l); got < 2*plain || got > 2.5*plain { // (4+1)/2
		t.Errorf("cost %v of int8, %v of f32", got, plain)
	}
}

// bestRing tries all orders.
func bestRing(n int, slowest func([]uint16) float64) (best float64) {
	order := make([]uint16, n)
	var try func(at int, used int)
	try = func(at, used int) {
		if at == n {
			best = max(best, slowest(order))
		}
		for i := range n {
			if used&(1<<i) == 0 {
				order[at] = uint16(i)
				try(at+1, used|1<<i)
			}
		}
	}
	if n <= 6 {
		try(1, 1)
	}
	return best
}

// A ring leads through no relay where it can do without, however slow the direct ways are; but in
// one case of a thousand.
func TestRingsAvoidRelays(t *testing.T) {
	steps := func(n int, l slot.Links) (relays int) {
		order, closed := ringOrder(n, l)
		if !slot.RingOf(order, n) || !closed {
			t.Fatalf("%v, closed %v", order, closed)
		}
		for i, from := range order {
			if l.Between(int(from), int(order[(i+1)%n])).Relayed() {
				relays++
			}
		}
		return relays
	}
	for want, l := range []slot.Links{
		linksOf(4, relayed(100_000, 0, 1, 2, 3), pair(slot.LinkOf(10), 0, 2, 2, 1, 1, 3, 3, 0)),
		{},
		linksOf(4, relayed(0, 0, 3, 1, 3, 2, 3)), // all of one peer's: two steps, no others
	} {
		if got := steps(4, l); l.Ways != nil && got != want {
			t.Errorf("a ring has %d steps through relays, want %d", got, want)
		}
	}
	rng := rand.New(rand.NewPCG(1, 1))
	missed, cases := 0, 0
	for n := 4; n <= 16; n++ {
		for range 300 {
			perm, share, l := rng.Perm(n), .2+.5*rng.Float64(), linksOf(n)
			for i := range n {
				for j := range i {
					if rng.Float64() < share {
						relayed(0, i, j)(l)
					}
				}
			}
			for i, from := range perm {
				pair(slot.LinkDirect, from, perm[(i+1)%n])(l)
			}
			if cases++; steps(n, l) > 0 {
				missed++
			}
		}
	}
	if missed > cases/1000 {
		t.Errorf("%d rings of %d not found", missed, cases)
	}
}

func TestShares(t *testing.T) {
	const third = 1. / 3
	quarters := []float64{.25, .25, .25, .25}
	for _, c := range []struct {
		name  string
		links []func(slot.Links)
		want  []float64
	}{
		{"nothing known", nil, quarters},
		{"about equal", []func(slot.Links){up(1000, 1200, 1400, 1000)}, quarters},
		{"two have no choice", []func(slot.Links){up(100, 100_000), relayed(10, 0, 1)}, []float64{.5, .5}},
		{
			"one with a tenth owns nothing: its raw frames alone take longer than all else",
			[]func(slot.Links){up(1024, 1024, 1024, 102)},
			[]float64{third, third, third, 0},
		},
		{
			"one of unknown speed is as the others",
			[]func(slot.Links){up(1024, 0, 1024, 102)},
			[]float64{third, third, third, 0},
		},
		{
			"a claim gains twice the equal share at most",
			[]func(slot.Links){up(1<<31, 1000)},
			[]float64{.5, third / 2, third / 2, third / 2},
		},
		{"a fast one", []func(slot.Links){up(2048, 1024)}, []float64{.4, .15, .15, .15, .15}},
		{
			"a slow pair owns nothing, and has nothing to say to each other",
			[]func(slot.Links){relayed(50, 0, 1)},
			[]float64{0, 0, .25, .25, .25, .25},
		},
		{
			"a peer with relayed ways alone owns nothing",
			[]func(slot.Links){relayed(0, 3, 0, 3, 1, 3, 2)},
			[]float64{third, third, third, 0},
		},
		{
			"the one that two slow pairs have in common",
			[]func(slot.Links){relayed(1000, 0, 1, 0, 2)},
			[]float64{0, third, third, third},
		},
		{"a fast relay is as good as a direct way", []func(slot.Links){relayed(50_000, 3, 0, 3, 1, 3, 2)}, quarters},
		{"uplinks are slower than the relay", []func(slot.Links){up(500), relayed(2500, 3, 0, 3, 1, 3, 2)}, quarters},
		{"all are relayed alike", []func(slot.Links){relayed(0, 0, 1, 0, 2, 0, 3, 1, 2, 1, 3, 2, 3)}, quarters},
	} {
		n := len(c.want)
		got, uneven := shares(n, linksOf(n, c.links...))
		apart := func(a, b float64) bool { return math.Abs(a-b) > 0.02 }
		if !slices.EqualFunc(got, c.want, func(a, b float64) bool { return !apart(a, b) }) ||
			uneven != apart(slices.Max(c.want), slices.Min(c.want)) {
			t.Errorf("%s: shares %.3f, want %.3f; uneven %v", c.name, got, c.want, uneven)
		}
	}
}

// The shares are the best there are within the bound: moving a little of one to another makes the
// slowest peer no faster. Whatever is relayed, no division is slower than the one by uplinks alone.
func TestSharesAreTheBest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, relays := rapid.IntRange(3, 12).Draw(t, "n"), rapid.Bool().Draw(t, "relays")
		l := linksOf(n, drawn(t, true, 0, 300, 3000, 30_000))
		if !relays {
			l.Ways = linksOf(n).Ways
			for i := range n {
				l.Uplinks[i] = slot.LinkOf(rapid.Uint32Range(500, 20_000).Draw(t, "uplink"))
			}
		}
		share, uneven := shares(n, l)
		if sum := total(share); math.Abs(sum-1) > 1e-9 || slices.Min(share) < 0 ||
			slices.Max(share) > maxShare/float64(n)+1e-9 {
			t.Errorf("shares %v, which add up to %v", share, sum)
		}
		direct := l
		direct.Ways = linksOf(n).Ways
		usual, _ := shares(n, direct)
		rates, _ := uplinks(n, l)
		worst := func(share []float64) float64 {
			took, _, _ := slowest(share, rates, pairSpeeds(n, l), l)
			return took.peak
		}
		if is, was := worst(share), worst(usual); is > was*(1+1e-9) {
			t.Errorf("%v takes %v, %v took %v", share, is, usual, was)
		}
		for k := 0; !relays && uneven && k < n*n; k++ {
			i, j, moved := k/n, k%n, slices.Clone(share)
			d := min(0.001, moved[i], maxShare/float64(n)-moved[j])
			moved[i], moved[j] = moved[i]-d, moved[j]+d
			if d > 0 && sends(moved, l) < sends(share, l)*(1-1e-9) {
				t.Errorf("%v from %d to %d is faster", d, i, j)
			}
		}
	})
}

// sends is how long the slowest peer sends, of a unit.
func sends(share []float64, l slot.Links) (worst float64) {
	for i, s := range share {
		worst = max(worst, (1+float64(len(share)-2)*s)/l.Uplink(i))
	}
	return worst
}

// BenchmarkPlanOf500 is what the leader of a run of 500, each reaching all, takes to divide a slot.
func BenchmarkPlanOf500(b *testing.B) {
	plan, l := testPlan(500), linksOf(500)
	for _, schedule := range []Schedule{Auto, Rotation, Ring} {
		b.Run(string(schedule), func(b *testing.B) {
			p := testParams(100_000_000, 64<<10)
			p.Schedule = schedule
			for b.Loop() {
				p.Planner()(plan, l)
			}
		})
	}
}

func TestEstimate(t *testing.T) {
	const elements, vector = 1_024_000, 4_096_000 // bytes as float32
	all := []func(slot.Links){up(1024)}
	for _, c := range []struct {
		name    string
		n       int
		links   []func(slot.Links)
		change  func(*Params, *slot.Plan)
		seconds float64
		relayed uint64
	}{
		{name: "nothing measured", n: 4},
		{name: "one alone sends nothing", n: 1, links: all},
		{name: "four at 1024 kB/s: 1.5 times the vector", n: 4, links: all, seconds: 6},
		{name: "the slowest counts", n: 4, links: []func(slot.Links){up(4096, 4096, 1024, 4096)}, seconds: 6},
		{
			name: "a slow pair: half the vector", n: 4, seconds: 4,
			links: []func(slot.Links){up(4096), func(l slot.Links) { l.Ways[1][2] = slot.LinkOf(512) }},
		},
		{
			name: "a relayed pair that was measured", n: 4, links: []func(slot.Links){up(4096), relayed(512, 1, 2)},
			seconds: 4, relayed: vector,
		},
		{
			name: "all relayed ways of a peer share it", n: 4, links: []func(slot.Links){relayed(0, 1, 0, 1, 2, 1, 3)},
			seconds: 6.144 / 2.5, relayed: 3 * vector,
		},
		{
			name: "who is gone sends nothing", n: 4, links: all, seconds: 16. / 3,
			change: func(p *Params, plan *slot.Plan) {
				plan.Gone.Set(2)
				plan.Pieces = Divide(*p, *plan, nil)
			},
		},
		{
			name: "a ring that passes by a relay", n: 4, links: []func(slot.Links){up(1024), relayed(1, 0, 1)},
			seconds: 6, change: func(_ *Params, plan *slot.Plan) { plan.Ring = []uint16{0, 2, 1, 3} },
		},
		{
			name: "int8: a quarter, and scales", n: 4, links: all, seconds: 1.52,
			change: func(p *Params, _ *slot.Plan) { p.Codec = "int8" },
		},
		{name: "a plan of another run", n: 4, links: all, change: func(_ *Params, plan *slot.Plan) {
			plan.Pieces = plan.Pieces[1:]
		}},
	} {
		p, plan := testParams(elements, 1024), testPlan(c.n)
		plan.Pieces = Pieces(p, 0, plan.Offers)
		if c.change != nil {
			c.change(&p, &plan)
		}
		e := p.Estimate(plan, linksOf(c.n, c.links...))
		if got := e.Takes.Seconds(); got < .97*c.seconds || got > 1.03*c.seconds || e.Relayed != c.relayed {
			t.Errorf("%s: %v, %d bytes through relays; want %.3f s and %d", c.name, e.Takes.Round(time.Millisecond),
				e.Relayed, c.seconds, c.relayed)
		}
	}
}
