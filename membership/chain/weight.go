package chain

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// weightWindow is the number of step records whose contributions' weights bound those of the next.
const weightWindow = 16

// mostWork returns what one contribution adds to the work at most. A bound by what is usual in the
// run keeps a member from making a branch the better one by claiming a large weight: a cap that
// suits all runs does not.
func (c *Chain) mostWork() uint64 {
	most := cmp.Or(c.rules.MaxWeight, math.MaxUint64)
	median := uint64(0)
	if c.rules.MaxWeightRatio > 0 {
		median = c.medianWeight()
	}
	if high, low := bits.Mul64(median, c.rules.MaxWeightRatio); median > 0 && high == 0 {
		most = min(most, low)
	}
	return most
}

// medianWeight returns the median of the weights of the contributions in the newest step records,
// of an even number the lower one in the middle; 0: there are none.
func (c *Chain) medianWeight() uint64 {
	var weights []uint64
	for h, steps := c.stepHeight, 0; h > 0 && steps < weightWindow; h-- {
		r := c.At(h)
		if r.Kind != slot.Step {
			continue
		}
		steps++
		for _, o := range r.Contributions {
			weights = append(weights, o.Weight)
		}
	}
	if len(weights) == 0 {
		return 0
	}
	slices.Sort(weights)
	return weights[(len(weights)-1)/2]
}
