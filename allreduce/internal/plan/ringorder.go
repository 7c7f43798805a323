package plan

import (
	"math"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Schedule says how the contributions of a group are combined.
type Schedule string

// The schedules. The outcome of a mean differs in its last bits between them, for sums have an
// order; so it is the plan that says which.
const (
	Auto Schedule = "auto" // by cost: see choose
	// every peer sends every owner the frames of its piece; owners see all values
	Rotation Schedule = "rotation"
	// partial results go from neighbour to neighbour; Rotation where that failed or would take too
	// much
	Ring Schedule = "ring"
)

// ringGain is how much cheaper a ring must be for auto to choose it for a mean: its frames take
// 2(n-1) steps where rotation's take 2, and measured speeds err.
const ringGain = 0.8

// Rings says whether a plan may have a ring. A peer that passes a partial result on could change
// it, so a robust aggregator has a ring only where the run spec asks for it by name.
func (p Params) Rings() bool { return p.Schedule == Ring || p.Schedule == Auto && p.Aggregator == Mean }

// choose returns the ring of a new group; nil for rotation.
//
// auto takes rotation where the aggregator is robust, and the cheaper schedule for a mean. Where
// two peers cannot reach each other, rotation leaves their contributions out of each other's
// pieces: then auto takes a ring in which all neighbours reach each other, if there is one.
func (p Params) choose(offers []slot.Offer, links slot.Links) []uint16 {
	n := len(offers)
	switch {
	case !p.Rings() || links.NoRing || n < 2:
		return nil
	case p.Schedule == Ring:
		order, _ := ringOrder(n, links)
		return order
	case n < 3:
		return nil
	}
	share, _ := shares(n, links)
	usual := ringGain * rotationCost(share, links) // infinite where two cannot reach each other
	if ringLeast(p, n, links) >= usual {
		return nil // whatever its order: it need not be looked for
	}
	if order, closed := ringOrder(n, links); closed && ringCost(p, order, links) < usual {
		return order
	}
	return nil
}

// ringOrder is an order of n places round a ring whose slowest step is as fast as could be found:
// greedy from place 0, then pairs of steps are exchanged as long as that helps (2-opt, with steps
// taken in their worse direction). A step through a relay comes after every direct one, however
// slow; where one is left, or one that has no way, the other places are tried to begin from, too.
// closed says that each step has a way. It depends on its arguments alone; where nothing is known
// it is 0, 1, 2, …
func ringOrder(n int, links slot.Links) (order []uint16, closed bool) {
	speed := directFirst(pairSpeeds(n, links), links)
	var best []int
	for start := range max(1, min(n, ringWork/(n*n))) {
		if seq := ringFrom(start, n, speed); best == nil || slowestStep(seq, speed) > slowestStep(best, speed) {
			best = seq
		}
		if slowestStep(best, speed) >= slowestDirect {
			break
		}
	}
	for _, place := range best {
		order = append(order, uint16(place))
	}
	return order, slowestStep(best, speed) > 0
}

// ringFrom looks for an order by beginning somewhere.
func ringFrom(start, n int, speed [][]float64) []int {
	at, left := start, make([]int, 0, n)
	for i := range n {
		if i != start {
			left = append(left, i)
		}
	}
	seq := []int{start}
	for len(left) > 0 {
		best := 0
		for k, j := range left {
			if speed[at][j] > speed[at][left[best]] {
				best = k
			}
		}
		at = left[best]
		seq, left = append(seq, at), slices.Delete(left, best, best+1)
	}
	for range n {
		if !improve(seq, speed) {
			break
		}
	}
	return seq
}

// slowestStep is the speed of a ring's slowest step; of one place, which has none, above all
// speeds.
func slowestStep[T int | uint16](seq []T, speed [][]float64) float64 {
	slowest := math.Inf(1)
	for i, place := range seq {
		if len(seq) > 1 {
			slowest = min(slowest, speed[place][seq[(i+1)%len(seq)]])
		}
	}
	return slowest
}

// improve turns round each stretch of the ring if the two steps at its ends become faster: the
// slower of them, then the other one.
func improve(seq []int, speed [][]float64) (better bool) {
	n := len(seq)
	step := func(i, j int) float64 { return speed[seq[i%n]][seq[j%n]] }
	for i := range n - 1 {
		for j := i + 2; j < n; j++ {
			if i == 0 && j == n-1 {
				continue // the same two steps
			}
			a, b := step(i, i+1), step(j, j+1)
			c, d := step(i, j), step(i+1, j+1)
			if min(c, d) > min(a, b) || min(c, d) == min(a, b) && max(c, d) > max(a, b) {
				slices.Reverse(seq[i+1 : j+1])
				better = true
			}
		}
	}
	return better
}
