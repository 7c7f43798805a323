package plan

import (
	"cmp"
	"math"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// What schedules take, by the links: of a vector of 1 kB, in seconds.

// pairSpeeds is the speed of each pair in its worse direction, in kB/s: 0 where there is no way,
// what is usual where none is known.
func pairSpeeds(n int, links slot.Links) [][]float64 {
	usual := usualSpeed(n, links)
	relayed := relayedWays(n, links)
	speeds := make([][]float64, n)
	for i := range speeds {
		speeds[i] = make([]float64, n)
		for j := range speeds[i] {
			there, back := links.Between(i, j), links.Between(j, i)
			if i == j || there == slot.LinkNone || back == slot.LinkNone {
				continue
			}
			assumed := usual
			if there.Relayed() {
				assumed = min(usual, relayRate/float64(max(relayed[i], relayed[j])))
			}
			speeds[i][j] = min(cmp.Or(there.Speed(), assumed), cmp.Or(back.Speed(), assumed))
		}
	}
	return speeds
}

// usualSpeed is the median of the speeds of direct pairs that are known.
func usualSpeed(n int, links slot.Links) float64 {
	var all []float64
	for i := range n {
		for j := range n {
			if l := links.Between(i, j); i != j && l.Speed() > 0 && !l.Relayed() {
				all = append(all, l.Speed())
			}
		}
	}
	return median(all)
}

// median is unmeasured where there is nothing to take it of.
func median(all []float64) float64 {
	if len(all) == 0 {
		return unmeasured
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// rotationCost is the time that a rotation takes by the links, of a vector of 1 kB: peer i sends
// each other peer j the raw share of j and the reduced one of i, 1 + (n-2) s_i in all.
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

// laneCost is what a value of a partial result takes, always a float32, in units of an encoded one:
// where contributions are few bits a ring is dear.
func (p Params) laneCost() float64 {
	c, _, _ := p.Codecs() // validated
	return Float32Size * float64(c.Block) / float64(c.EncodedSize(c.Block))
}

// ringLoad is what each peer of a ring sends, of a vector of 1: with equal shares (n-1)/n of the
// vector reduced, and as much in partial results, of one lane while there is nothing to trim, of
// more the further it came.
func (p Params) ringLoad(n int) float64 {
	trim, lanes := p.Trimmed(n), 0
	for position := 1; position < n; position++ {
		lanes += min(position, 2*trim+1)
	}
	return (float64(lanes)*p.laneCost() + float64(n-1)) / float64(n)
}

// ringCost is the time that a ring takes.
func ringCost(p Params, order []uint16, links slot.Links) float64 {
	n := len(order)
	return p.ringTime(n, slowestStep(order, pairSpeeds(n, links)), links)
}

// ringTime is the time that a ring takes whose slowest step has the given speed.
func (p Params) ringTime(n int, slowest float64, links slot.Links) float64 {
	load := p.ringLoad(n)
	cost := load / slowest
	for i := range n {
		if up := links.Uplink(i); up > 0 {
			cost = max(cost, load/up)
		}
	}
	return cost
}

// ringLeast is what a ring of any order takes at least: no step is faster than the fastest one
// there is.
func ringLeast(p Params, n int, links slot.Links) float64 {
	fastest := 0.0
	for _, speeds := range pairSpeeds(n, links) {
		fastest = max(fastest, slices.Max(speeds))
	}
	return p.ringTime(n, fastest, links)
}
