package plan

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Aggregator names how the values of all contributors at one coordinate become one value.
type Aggregator string

// The aggregators. Those that are robust ignore the weights that peers claim; the staleness
// discount scales their values.
const (
	// Mean weighted by the offers' weights times the staleness discount
	Mean        Aggregator = "mean"
	TrimmedMean Aggregator = "trimmed_mean" // mean without the k lowest and the k highest; see Trim
	// the middle value, or the mean of the two in the middle
	Median Aggregator = "median"
)

// Aggregators lists all there are.
func Aggregators() []Aggregator { return []Aggregator{Mean, TrimmedMean, Median} }

// Aggregation is how one plan's frames are aggregated: pure, and used from one goroutine at a time.
//
// The clip factor of a contribution is taken per frame of the grid: its norm over the frame against
// the median of all contributors' norms over the same frame. So a frame can be reduced and sent on
// before the next has arrived, memory stays bounded, and a range that is split at a frame border
// comes out with the same bits.
type Aggregation struct {
	Kind Aggregator
	Clip bool
	Trim int // values that are left out at each end of a coordinate
	// Counted are the places of the contributions that weigh something, in order. Nothing depends
	// on the values of the others.
	Counted []int
	Scale   []float32   // of each that is counted: share of the mean, or discount
	used    []float32   // scale times clip, of the frame at hand
	cols    [][]float32 // of those that are counted, of the frame at hand
}

// NewAggregation prepares the aggregation of the contributions that the offers of a slot announce.
// usual is what the plan says of the weights in the records before; see slot.Weighing. It fails if
// an offer is too stale for the run's discount table, or if none of them weighs anything.
func NewAggregation(p Params, slotNumber, usual uint64, offers []slot.Offer) (*Aggregation, error) {
	a := &Aggregation{Kind: p.Aggregator, Clip: p.Clip}
	var weights []uint64
	for i, w := range p.Weighing(usual).Weights(offers) {
		d, err := p.discount(slotNumber, offers[i])
		if err != nil {
			return nil, err
		}
		if w == 0 && p.Empties {
			continue
		}
		a.Counted = append(a.Counted, i)
		a.Scale = append(a.Scale, perMille(d))
		over, product := bits.Mul64(w, uint64(d))
		if over != 0 {
			product = math.MaxUint64
		}
		weights = append(weights, product)
	}
	if len(a.Counted) == 0 {
		return nil, errNothing
	}
	if p.Aggregator == Mean {
		a.Scale = kernel.MeanScales(weights)
	}
	n := len(a.Counted)
	a.Trim, a.used, a.cols = p.Trimmed(n), make([]float32, n), make([][]float32, n)
	return a, nil
}

var errNothing = errors.New("no contribution weighs anything")

// Weighing says what contributions weigh where the plan or the record states this usual weight.
func (p Params) Weighing(usual uint64) slot.Weighing {
	return slot.Weighing{Ratio: p.WeightRatio, Usual: usual, Empties: p.Empties}
}

// Pick appends to dst the values of the contributors that are counted.
func Pick[T any](a *Aggregation, dst, of []T) []T {
	for _, i := range a.Counted {
		dst = append(dst, of[i])
	}
	return dst
}

// Frame aggregates one frame: cols holds a column for each contributor in peer-ID order, norms
// their squared norms over the frame (read only if clipping).
func (a *Aggregation) Frame(dst []float32, cols [][]float32, norms []float64) {
	a.Begin(norms)
	a.Part(dst, cols)
}

// Begin begins a frame, given the contributors' squared norms over it (read only if clipping).
func (a *Aggregation) Begin(norms []float64) {
	copy(a.used, a.Scale)
	if a.Clip {
		kernel.Mul(a.used, a.Scale, kernel.ClipScales(Pick(a, nil, norms)))
	}
}

// Part aggregates a part of the frame that has begun.
func (a *Aggregation) Part(dst []float32, cols [][]float32) {
	cols = Pick(a, a.cols[:0], cols)
	if a.Kind == Mean {
		kernel.MeanInto(dst, cols, a.used)
	} else {
		// a median is that of the one or two in the middle
		kernel.TrimmedMeanInto(dst, cols, a.used, a.Trim)
	}
}

// CountTrimmed counts for each contributor that is counted whether its value at one coordinate of
// the frame that has begun is left out. Of values that are equal to one that is kept none counts.
// sorted is room for as many values.
func (a *Aggregation) CountTrimmed(counts []uint32, sorted []float32, cols [][]float32, at int) {
	k, sorted := a.Trim, sorted[:len(a.Counted)]
	for i, place := range a.Counted {
		sorted[i] = float32(a.used[i] * cols[place][at])
	}
	slices.Sort(sorted)
	low, high := sorted[k], sorted[len(sorted)-1-k]
	for i, place := range a.Counted {
		if v := float32(a.used[i] * cols[place][at]); v < low || v > high {
			counts[place]++
		}
	}
}

// discount is the per-mille factor of an offer's staleness.
func (p Params) discount(slotNumber uint64, o slot.Offer) (uint32, error) {
	if slotNumber == 0 || o.Base >= slotNumber {
		return 0, fmt.Errorf("offer of %s to slot %d is based on slot %d", o.Peer.Short(), slotNumber, o.Base)
	}
	staleness := slotNumber - 1 - o.Base
	if staleness == 0 && len(p.Discount) == 0 {
		return fullDiscount, nil
	}
	if staleness >= uint64(len(p.Discount)) {
		return 0, fmt.Errorf("offer of %s to slot %d is %d slots stale: at most %d are accepted",
			o.Peer.Short(), slotNumber, staleness, max(0, len(p.Discount)-1))
	}
	return p.Discount[staleness], nil
}

// perMille is d/1000, rounded once; the kernel does the division.
func perMille(d uint32) float32 {
	return kernel.MeanScales([]uint64{uint64(d), uint64(fullDiscount - d)})[0]
}
