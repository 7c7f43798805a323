package plan

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// relayedPair makes a pair's way one through a relay, of unknown speed if that is 0.
func relayedPair(l slot.Links, i, j int, kBps uint32) {
	w := slot.LinkOf(kBps).Way(true)
	l.Ways[i][j], l.Ways[j][i] = w, w
}

func relayedSteps(order []uint16, l slot.Links) (steps int) {
	for i, from := range order {
		if l.Between(int(from), int(order[(i+1)%len(order)])).Relayed() {
			steps++
		}
	}
	return steps
}

// A ring leads through no relay where it can do without, however slow the direct ways are.
func TestRingsAvoidRelays(t *testing.T) {
	crossing := linksOf(4, func(l slot.Links) { // 0-1-2-3 is the order where nothing is known
		relayedPair(l, 0, 1, 100_000)
		relayedPair(l, 2, 3, 100_000)
		for _, p := range [][2]int{{0, 2}, {2, 1}, {1, 3}, {3, 0}} {
			l.Ways[p[0]][p[1]], l.Ways[p[1]][p[0]] = slot.LinkOf(10), slot.LinkOf(10)
		}
	})
	alone := linksOf(4, func(l slot.Links) {
		for i := range 3 {
			relayedPair(l, i, 3, 0)
		}
	})
	for name, c := range map[string]struct {
		links slot.Links
		steps int
	}{
		"none relayed":                            {linksOf(4, nil), 0},
		"fast relays beside slow ways":            {crossing, 0},
		"all of one peer's: two steps, no others": {alone, 2},
	} {
		order, closed := ringOrder(4, c.links)
		if got := relayedSteps(order, c.links); got != c.steps || !closed {
			t.Errorf("%s: ring %v has %d steps through relays, want %d; closed %v", name, order, got, c.steps, closed)
		}
	}
}

// Where there is a ring without relays it is found, but in one case of a thousand.
func TestRingsWithoutRelaysAreFound(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	missed, cases := 0, 0
	for n := 4; n <= 16; n++ {
		for range 300 {
			perm, share := rng.Perm(n), .2+.5*rng.Float64()
			l := linksOf(n, func(l slot.Links) {
				for i := range n {
					for j := range i {
						if rng.Float64() < share {
							relayedPair(l, i, j, 0)
						}
					}
				}
				for i, from := range perm {
					to := perm[(i+1)%n]
					l.Ways[from][to], l.Ways[to][from] = slot.LinkDirect, slot.LinkDirect
				}
			})
			order, closed := ringOrder(n, l)
			if !slot.RingOf(order, n) || !closed {
				t.Fatalf("%v, closed %v", order, closed)
			}
			cases++
			if relayedSteps(order, l) > 0 {
				missed++
			}
		}
	}
	if missed > cases/1000 {
		t.Errorf("%d of %d not found", missed, cases)
	}
}

func TestSharesWithRelays(t *testing.T) {
	all := func(l slot.Links, p int, kBps uint32) {
		for i := range l.Ways {
			if i != p {
				relayedPair(l, i, p, kBps)
			}
		}
	}
	up := func(l slot.Links, kBps ...uint32) {
		for i, u := range kBps {
			l.Uplinks[i] = slot.LinkOf(u)
		}
	}
	const third = 1. / 3
	for _, c := range []struct {
		name  string
		n     int
		links func(slot.Links)
		want  []float64
	}{
		{
			"a slow pair owns nothing, and has nothing to say to each other", 6,
			func(l slot.Links) { relayedPair(l, 0, 1, 50) },
			[]float64{0, 0, .25, .25, .25, .25},
		},
		{
			"a peer with relayed ways alone owns nothing", 4, func(l slot.Links) { all(l, 3, 0) },
			[]float64{third, third, third, 0},
		},
		{
			"the one that two slow pairs have in common", 4,
			func(l slot.Links) { relayedPair(l, 0, 1, 1000); relayedPair(l, 0, 2, 1000) },
			[]float64{0, third, third, third},
		},
		{
			"a fast relay is as good as a direct way", 4, func(l slot.Links) { all(l, 3, 50_000) },
			[]float64{.25, .25, .25, .25},
		},
		{
			"uplinks are slower than the relay", 4, func(l slot.Links) { up(l, 500, 500, 500, 500); all(l, 3, 2500) },
			[]float64{.25, .25, .25, .25},
		},
		{"two have no choice", 2, func(l slot.Links) { relayedPair(l, 0, 1, 10) }, []float64{.5, .5}},
		{
			"so have those that are all relayed alike", 4,
			func(l slot.Links) { all(l, 0, 0); all(l, 1, 0); all(l, 2, 0) },
			[]float64{.25, .25, .25, .25},
		},
	} {
		got, uneven := shares(c.n, linksOf(c.n, c.links))
		apart := func(a, b float64) bool { return math.Abs(a-b) > 0.02 }
		if !slices.EqualFunc(got, c.want, func(a, b float64) bool { return !apart(a, b) }) {
			t.Errorf("%s: shares %.3f, want %.3f", c.name, got, c.want)
		}
		if uneven != apart(slices.Max(c.want), slices.Min(c.want)) {
			t.Errorf("%s: uneven %v", c.name, uneven)
		}
	}
}

// Whatever is relayed, shares are shares, and no division of theirs is slower than the one by
// uplinks alone.
func TestSharesWithRelaysAreShares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(3, 12).Draw(t, "n")
		speed := rapid.SampledFrom([]uint32{0, 300, 3000, 30_000})
		relayed := rapid.SampledFrom([]bool{false, false, true})
		l := linksOf(n, func(l slot.Links) {
			for i := range n {
				l.Uplinks[i] = slot.LinkOf(speed.Draw(t, "uplink"))
				for j := range i {
					if relayed.Draw(t, "relayed") {
						relayedPair(l, i, j, speed.Draw(t, "speed"))
					}
				}
			}
		})
		share, _ := shares(n, l)
		direct := l
		direct.Ways = linksOf(n, nil).Ways
		usual, _ := shares(n, direct)
		sum := total(share)
		for i, s := range share {
			if s < 0 || s > maxShare/float64(n)+1e-9 {
				t.Errorf("share %d is %v", i, s)
			}
		}
		if math.Abs(sum-1) > 1e-9 {
			t.Errorf("the shares %v add up to %v", share, sum)
		}
		up, _ := uplinks(n, l)
		speeds := pairSpeeds(n, l)
		is, _, _ := slowest(share, up, speeds, l)
		was, _, _ := slowest(usual, up, speeds, l)
		if is.peak > was.peak*(1+1e-9) {
			t.Errorf("%v takes %v, %v took %v", share, is.peak, usual, was.peak)
		}
	})
}
