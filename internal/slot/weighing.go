package slot

import (
	"math/bits"
	"slices"
)

// Weighing says what contributions weigh, whatever they claim. It is a function of agreed facts
// alone: the run spec, the records, and the offers.
type Weighing struct {
	// Ratio caps a weight at so many times the usual one; 0: no cap.
	Ratio uint64
	// Usual is the median weight that the newest step records list. Where none does it is 0, and
	// the median of the contributions that are weighed together takes its place.
	Usual uint64
	// Empties says whether empty contributions weigh nothing; see Empty.
	Empties bool
}

// Weights returns the weight of each contribution: what its offer claims, up to the cap, and 0 for
// an empty one. The offers are those that are aggregated together. At least one weighs something.
func (w Weighing) Weights(offers []Offer) []uint64 {
	most, capped := w.cap(offers)
	var empty Bitmap
	if w.Empties {
		empty = Empty(offers)
	}
	weights := make([]uint64, len(offers))
	for i, o := range offers {
		switch {
		case empty.Has(i):
		case capped:
			weights[i] = min(o.Weight, most)
		default:
			weights[i] = o.Weight
		}
	}
	return weights
}

// cap returns the most that one of the contributions weighs. There is none where the product does
// not fit.
func (w Weighing) cap(offers []Offer) (most uint64, capped bool) {
	if w.Ratio == 0 || len(offers) == 0 {
		return 0, false
	}
	usual := w.Usual
	if usual == 0 {
		usual = MedianWeight(offers)
	}
	high, low := bits.Mul64(usual, w.Ratio)
	return low, high == 0 && usual > 0
}

// MedianWeight returns the median of the weights that offers claim, of an even number the lower one
// in the middle; 0 if there are none. A few that claim a huge weight do not move it.
func MedianWeight(offers []Offer) uint64 {
	weights := make([]uint64, len(offers))
	for i, o := range offers {
		weights[i] = o.Weight
	}
	if len(weights) == 0 {
		return 0
	}
	slices.Sort(weights)
	return weights[(len(weights)-1)/2]
}

// emptyRatio is the least norm that is not empty, as a part of the median: a thousandth, squared.
const emptyRatio = 1e6

// Empty returns the contributions with nothing in them: their norm is less than a thousandth of the
// median norm of all that are aggregated together.
//
// The median of an even number is the lower one in the middle. So those that lie about their norm,
// or send huge values, make no honest contribution empty while they are at most half. Where the
// median is 0 none is empty: what most say is nothing may be true, of a part of the model that does
// not change. Of two contributions the median is the smaller one: only a norm of exactly 0 beside
// another one is empty.
func Empty(offers []Offer) Bitmap {
	n := len(offers)
	empty := NewBitmap(n)
	if n == 0 {
		return empty
	}
	norms := make([]float64, n)
	for i, o := range offers {
		norms[i] = o.NormSq
	}
	slices.Sort(norms)
	median := norms[(n-1)/2]
	if n == 2 && median == 0 {
		median = norms[1]
	}
	for i, o := range offers {
		if median > 0 && (o.NormSq == 0 || o.NormSq < median/emptyRatio) {
			empty.Set(i)
		}
	}
	return empty
}

// TotalNormSq is the squared norm of a contribution, which its offer states: the sum of those of
// its frames, in float64, in their order from 0 on. A leaf that states none adds nothing: its frame
// proves the lie.
func TotalNormSq(leaves []FrameLeaf) (total float64) {
	for _, l := range leaves {
		if IsNormSq(l.NormSq) {
			total += l.NormSq
		}
	}
	return total
}
