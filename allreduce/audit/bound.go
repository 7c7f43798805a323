package audit

import (
	"math"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
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
// Encoding makes that greater by at most the factor of growth.
func (s *Segment) Bound(norms []float64) float64 {
	y := s.scaled(norms)
	n := len(y)
	most := 0.0
	switch s.Params.Aggregator {
	case allreduce.TrimmedMean:
		most = trimmedBound(y, allreduce.Trim(s.Params.TrimPermille, n))
	case allreduce.Median:
		most = trimmedBound(y, (n-1)/2)
	default:
		for _, v := range y {
			most += v
		}
		most *= most
	}
	return most*growth(s.out.Codec.Name())*boundMore + boundLeast
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

// growth is by how much encoding can make a squared norm greater.
//
//   - bf16: a value by 2^-8 of it.
//   - int8, int4: a block's greatest value becomes L = 127 or 7 steps; of the other 255 each rounds
//     to some integer r, and up from no less than r - 1/2. The sum of r^2 over that of the values'
//     squares is greatest where all have the same r: (255 r^2 + L^2) / (255 (r-1/2)^2 + L^2). It is
//     1.065 for int8, with r = 8, and 2.70 for int4, with r = 1.
func growth(name string) float64 {
	switch name {
	case codec.F32:
		return 1
	case codec.BF16:
		return (1 + 0x1p-8) * (1 + 0x1p-8)
	case codec.Int8:
		return rounded(127)
	case codec.Int4:
		return rounded(7)
	default:
		panic("audit: codec " + name + " is of no outcome")
	}
}

func rounded(steps float64) (most float64) {
	const others = kernel.QuantBlock - 1
	for r := 1.0; r <= steps; r++ {
		most = max(most, (others*r*r+steps*steps)/(others*(r-.5)*(r-.5)+steps*steps))
	}
	return most
}
