package plan

import (
	"math"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// What plans take for the speed of what nobody has measured yet, in kB/s. That of a direct way or
// an uplink only counts beside what a relay carries: where nothing is known all are equal.
const (
	unmeasured = 10_000
	// of one peer, on all its ways through relays together
	relayRate = 2_500
)

// Speeds of direct ways are at least slowestDirect, in kB/s. afterDirect ranks a way through a
// relay below every one of them.
const (
	slowestDirect = 1
	afterDirect   = 1e-10
)

// directFirst ranks the speeds of pairs: those through relays come after all direct ones. It
// changes them in place.
func directFirst(speeds [][]float64, links slot.Links) [][]float64 {
	for i := range speeds {
		for j := range speeds[i] {
			if links.Between(i, j).Relayed() {
				speeds[i][j] *= afterDirect
			}
		}
	}
	return speeds
}

// relayedWays counts each peer's ways that lead through relays.
func relayedWays(n int, links slot.Links) []int {
	ways := make([]int, n)
	for i := range n {
		for j := range n {
			if i != j && links.Between(i, j).Relayed() {
				ways[i]++
			}
		}
	}
	return ways
}

// A division that spares relays is taken where it shortens the slot by more than measurements err;
// owners are halved until they own so little, in equal shares, then they own nothing.
const (
	spared   = 0.9
	leastOwn = 1. / 8
)

// Planning must not keep a large group's leader: beyond 64 peers fewer orders of a ring are tried,
// and fewer owners relieved.
const (
	ringWork    = 1 << 18
	relieveWork = 1 << 22
)

// relieve has owners whose ways lead through relays own less, or nothing, as long as the slowest
// way or uplink is faster for it: of the slowest relayed pair, the one whose owning less helps
// more. It returns nil where that gains nothing worth it. most is what each may own.
func relieve(share, most, up []float64, links slot.Links) []float64 {
	n := len(share)
	if slices.Max(relayedWays(n, links)) == 0 {
		return nil
	}
	speeds := pairSpeeds(n, links)
	before, _, _ := slowest(share, up, speeds, links)
	best, cost := share, before
	for range min(4*n, relieveWork/(n*n)) {
		_, i, j := slowest(best, up, speeds, links)
		var next, bounds []float64
		for _, k := range []int{i, j} {
			bound := slices.Clone(most)
			if bound[k] = best[k] / 2; bound[k]*float64(n) < leastOwn {
				bound[k] = 0
			}
			if total(bound) < 1 {
				continue
			}
			tried := fill(up, bound)
			if c, _, _ := slowest(tried, up, speeds, links); c.all < 0.999*cost.all {
				next, bounds, cost = tried, bound, c
			}
		}
		if next == nil {
			break
		}
		best, most = next, bounds
	}
	if cost.peak > spared*before.peak {
		return nil
	}
	return best
}

// times are what a division takes: the slowest way or uplink, and all of them, in which the slowest
// weigh most.
type times struct{ peak, all float64 }

// slowest is how long a division takes on the uplinks and the relayed ways, and the slowest of
// those pairs.
func slowest(share, up []float64, speeds [][]float64, links slot.Links) (took times, from, to int) {
	note := func(t float64) {
		took.peak = max(took.peak, t)
		t *= t
		t *= t
		t *= t
		took.all += t * t
	}
	worst := -1.0
	for i, s := range share {
		note((1 + float64(len(share)-2)*s) / up[i])
		for j := range i {
			if !links.Between(i, j).Relayed() {
				continue
			}
			t := (s + share[j]) / speeds[i][j]
			note(t)
			if t > worst {
				worst, from, to = t, i, j
			}
		}
	}
	took.all = math.Pow(took.all, 1./16)
	return took, from, to
}

func total(xs []float64) (sum float64) {
	for _, x := range xs {
		sum += x
	}
	return sum
}
