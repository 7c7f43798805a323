package audit

import (
	"math"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/allreduce/internal/plan"
	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
)

const (
	// boundMore is for float32 rounding: of scales, products, sums of up to 1024 values (2^-13 of
	// the sum of magnitudes), and decoded values.
	boundMore = 1 + 1e-3
	// boundLeast is for what rounds to or from subnormal numbers: up to 2^-134 in each of 2^22
	// elements.
	boundLeast = 0x1p-240
)

// Bound is the greatest squared norm (kernel.NormSq of the decoded values) that a frame of an
// honest outcome can have; norms are the squared norms that the contributors have committed to for
// this frame, in the order of the offers. A frame above it is the fault of the owner, or of a
// contributor whose norm is false, which the owner had to refuse.
//
// Let y_i be what is aggregated of contributor i: its values times its scale and clip. Its norm
// follows from the norms alone.
//
//   - mean: the outcome is the sum of the y_i, so its norm is at most the sum of theirs.
//   - trimmed mean, k of n values dropped at each end, m = n-2k kept. Leave out any s <= k
//     contributors; the others are left. At a coordinate the outcome is no greater in magnitude
//     than the greatest value kept, and k values that are as great were dropped: of these k+1 at
//     least k+1-s are the others'. So its square is at most the sum of the others' squares over
//     k+1-s. It is also at most the mean of the m squares kept. Each value kept of one that is left
//     out has a value of the others that was dropped, as great, to stand for it. So its square is
//     at most the sum of the others' squares over m. Added up over the coordinates: the sum over
//     the others of |y_i|^2 / max(m, k+1-s). The bound is the least of these for s = 0 to k, each
//     time without the s greatest norms.
//   - median: the trimmed mean with k = (n-1)/2, rounded down.
//
// Encoding makes that greater by at most the factor of codec.Growth.
func (s *Segment) Bound(norms []float64) float64 {
	y := s.scaled(norms)
	most := 0.0
	if s.Params.Aggregator == allreduce.Mean {
		for _, v := range y {
			most += v
		}
		most *= most
	} else {
		most = trimmedBound(y, s.Params.Trimmed(len(y)))
	}
	return most*s.out.Codec.Growth*boundMore + boundLeast
}

// scaled are the norms of what is aggregated, of the contributions that weigh something. What
// cannot be a norm counts as infinite.
func (s *Segment) scaled(norms []float64) []float64 {
	agg := s.aggregation()
	norms = plan.Pick(agg, nil, norms)
	used := slices.Clone(agg.Scale)
	if agg.Clip {
		kernel.Mul(used, agg.Scale, kernel.ClipScales(norms))
	}
	y := make([]float64, len(norms))
	for i, v := range norms {
		if y[i] = float64(used[i]) * math.Sqrt(v); !(y[i] >= 0) || math.IsInf(v, 1) {
			y[i] = math.Inf(1)
		}
	}
	return y
}

// trimmedBound is the squared norm that a mean of values of which k are dropped at each end can
// have, y being the contributors' norms.
func trimmedBound(y []float64, k int) float64 {
	y = slices.Sorted(slices.Values(y))
	n, sum, least := len(y), 0.0, math.Inf(1)
	for i, v := range y {
		sum += v * v
		if left := n - 1 - i; left <= k {
			least = min(least, sum/float64(max(n-2*k, k+1-left)))
		}
	}
	return least
}
