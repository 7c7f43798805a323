package allreduce

import (
	"math"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Schedule says how the contributions of a group are combined.
type Schedule string

// The schedules. The outcome of a mean differs in its last bits between them, for sums have an order; so it is the plan that says which.
const (
	Auto     Schedule = "auto"     // by cost: see choose
	Rotation Schedule = "rotation" // every peer sends every owner what is its; owners see all values
	Ring     Schedule = "ring"     // partial results go from neighbour to neighbour; where that failed or would take too much, as Rotation
)

// Schedules lists all there are.
func Schedules() []Schedule { return []Schedule{Auto, Rotation, Ring} }

// ringGain is how much cheaper a ring must be for auto to choose it for a mean: its frames take 2(n-1) steps where rotation's take 2, and
// measured speeds err.
const ringGain = 0.8

// Rings says whether a plan may have a ring. Who passes a partial result on could change it, so a robust aggregator has one only where the run spec
// asks for it by name.
func (p Params) Rings() bool { return p.Schedule == Ring || p.Schedule == Auto && p.Aggregator == Mean }

// choose returns the ring of a new group; nil for rotation.
//
// auto takes rotation where the aggregator is robust. Of a mean it takes the cheaper one; and where a pair cannot reach each other, rotation
// leaves their contributions out of each other's pieces: then it takes a ring in which all neighbours reach each other, if there is one.
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
	together := allReach(n, links)
	usual := ringGain * rotationCost(shares(n, links), links)
	if together && ringLeast(p, n, links) >= usual {
		return nil // whatever its order: it need not be looked for
	}
	if order, closed := ringOrder(n, links); closed && (!together || ringCost(p, order, links) < usual) {
		return order
	}
	return nil
}

// ringLeast is what a ring of any order takes at least: no step is faster than the fastest one there is.
func ringLeast(p Params, n int, links slot.Links) (cost float64) {
	fastest := 0.0
	for _, speeds := range pairSpeeds(n, links) {
		fastest = max(fastest, slices.Max(speeds))
	}
	load := p.ringLoad(n)
	cost = load / fastest
	for i := range n {
		if up := links.Uplink(i); up > 0 {
			cost = max(cost, load/up)
		}
	}
	return cost
}

// allReach says whether no pair is known to have no way.
func allReach(n int, links slot.Links) bool {
	for i := range n {
		for j := range n {
			if i != j && links.Between(i, j) == slot.LinkNone {
				return false
			}
		}
	}
	return true
}

// ringOrder is an order of n places round a ring whose slowest step is as fast as could be found: greedy from place 0, then pairs of steps
// are exchanged as long as that helps (2-opt, with steps taken in their worse direction). closed says that each step has a way. It
// depends on its arguments alone; where nothing is known it is 0, 1, 2, …
func ringOrder(n int, links slot.Links) (order []uint16, closed bool) {
	speed := pairSpeeds(n, links)
	at, left := 0, make([]int, 0, n)
	for i := 1; i < n; i++ {
		left = append(left, i)
	}
	seq := []int{0}
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
	closed = true
	for i, place := range seq {
		order = append(order, uint16(place))
		closed = closed && (n < 2 || speed[place][seq[(i+1)%n]] > 0)
	}
	return order, closed
}

// improve turns round each stretch of the ring if the two steps at its ends become faster: the slower of them, then the other one.
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

// pairSpeeds is the speed of each pair in its worse direction, in kB/s: 0 where there is no way, what is usual where none is known.
func pairSpeeds(n int, links slot.Links) [][]float64 {
	usual := usualSpeed(n, links)
	speeds := make([][]float64, n)
	for i := range speeds {
		speeds[i] = make([]float64, n)
		for j := range speeds[i] {
			there, back := links.Between(i, j), links.Between(j, i)
			if i == j || there == slot.LinkNone || back == slot.LinkNone {
				continue
			}
			speeds[i][j] = min(known(there.Speed(), usual), known(back.Speed(), usual))
		}
	}
	return speeds
}

func known(speed, usual float64) float64 {
	if speed == 0 {
		return usual
	}
	return speed
}

// usualSpeed is the median of the speeds of pairs that are known; 1 if none is.
func usualSpeed(n int, links slot.Links) float64 {
	var all []float64
	for i := range n {
		for j := range n {
			if v := links.Between(i, j).Speed(); i != j && v > 0 {
				all = append(all, v)
			}
		}
	}
	return median(all)
}

func median(all []float64) float64 {
	if len(all) == 0 {
		return 1
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// rotationCost is the time that a rotation takes by the links, of a vector of 1 kB: peer i sends each other peer j the raw share of j and
// the reduced one of i, 1 + (n-2) s_i in all.
func rotationCost(share []float64, links slot.Links) (cost float64) {
	n := len(share)
	speeds := pairSpeeds(n, links)
	for i := range n {
		if up := links.Uplink(i); up > 0 {
			cost = max(cost, (1+float64(n-2)*share[i])/up)
		}
		for j := range n {
			if i == j {
				continue
			}
			if speeds[i][j] == 0 {
				return math.Inf(1)
			}
			cost = max(cost, (share[i]+share[j])/speeds[i][j])
		}
	}
	return cost
}

// laneCost is what a value of a partial result takes, always a float32, in units of an encoded one: where contributions are few bits a ring is dear.
func (p Params) laneCost() float64 {
	c, err := codec.New(p.Codec)
	if err != nil {
		return 1 // Validate says so
	}
	return float32Size * float64(c.Block()) / float64(c.EncodedSize(c.Block()))
}

// ringLoad is what each peer of a ring sends, of a vector of 1: with equal shares (n-1)/n of the vector reduced, and as much in partial
// results, of one lane while there is nothing to trim, of more the further it came.
func (p Params) ringLoad(n int) float64 {
	trim, lanes := p.trimmed(n), 0
	for position := 1; position < n; position++ {
		lanes += min(position, 2*trim+1)
	}
	return (float64(lanes)*p.laneCost() + float64(n-1)) / float64(n)
}

// ringCost is the time that a ring takes.
func ringCost(p Params, order []uint16, links slot.Links) (cost float64) {
	n := len(order)
	bytes := p.ringLoad(n)
	speeds := pairSpeeds(n, links)
	for i, from := range order {
		to := order[(i+1)%n]
		if speeds[from][to] == 0 {
			return math.Inf(1)
		}
		cost = max(cost, bytes/speeds[from][to])
		if up := links.Uplink(int(from)); up > 0 {
			cost = max(cost, bytes/up)
		}
	}
	return cost
}
