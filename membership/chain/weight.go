package chain

import (
	"cmp"
	"math"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Weighing returns what the contributions to the open slot weigh. A bound by what is usual in the
// run keeps a member from moving the model, or from making a branch the better one, by claiming a
// large weight: a cap that suits all runs does not.
func (pos *position) Weighing() slot.Weighing { return pos.rules.weighing(pos.UsualWeight()) }

func (r Rules) weighing(usual uint64) slot.Weighing {
	return slot.Weighing{Ratio: r.MaxWeightRatio, Usual: usual, Empties: r.Byzantine}
}

// UsualWeight returns the median of the weights of the contributions in the newest step records, of
// an even number the lower one in the middle: what the plan and the record of the open slot state.
// It is 0 if there are none, or the rules do not ask for it.
func (pos *position) UsualWeight() uint64 {
	if pos.rules.MaxWeightRatio == 0 {
		return 0
	}
	return pos.recent.usualWeight()
}

// workOf returns what contributions add to the work.
func (pos *position) workOf(contributions []slot.Offer) (work uint64) {
	most := cmp.Or(pos.rules.MaxWeight, math.MaxUint64)
	for _, w := range pos.Weighing().Weights(contributions) {
		work = saturatingAdd(work, min(w, most))
	}
	return work
}

func saturatingAdd(a, b uint64) uint64 {
	if a > math.MaxUint64-b {
		return math.MaxUint64
	}
	return a + b
}
