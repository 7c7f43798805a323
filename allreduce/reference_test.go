package allreduce

import (
	"cmp"
	"math"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// reference computes what a reduction must give, the slow and plain way: all vectors in one place,
// one coordinate at a time. order is that of the sums.
func reference(p Params, plan slot.Plan, vectors [][]float32, order []int) []float32 {
	out := make([]float32, len(vectors[0]))
	for at := 0; at < len(out); at += p.FrameElements {
		end := min(at+p.FrameElements, len(out))
		scale := referenceScale(p, plan, vectors, at, end)
		values := make([]float32, len(vectors))
		for j := at; j < end; j++ {
			for at, i := range order {
				values[at] = float32(scale[i] * vectors[i][j])
			}
			switch p.Aggregator {
			case Mean:
				out[j] = 0
				for _, v := range values {
					out[j] += v
				}
			case TrimmedMean, Median:
				out[j] = trimmed(values, referenceTrim(p, len(values)))
			}
		}
	}
	return out
}

func referenceTrim(p Params, n int) int {
	return map[Aggregator]int{TrimmedMean: p.TrimPermille * n / 1000, Median: (n - 1) / 2}[p.Aggregator]
}

// referenceScale is by what each vector is multiplied in a frame.
func referenceScale(p Params, plan slot.Plan, vectors [][]float32, at, end int) (scale []float32) {
	var total float64
	var shares []float64
	var claims []uint64
	for _, o := range plan.Offers {
		claims = append(claims, o.Weight)
	}
	usual := cmp.Or(plan.Usual, slices.Sorted(slices.Values(claims))[(len(claims)-1)/2])
	for _, o := range plan.Offers {
		d := p.Discount[plan.Slot-1-o.Base]
		if p.WeightRatio > 0 {
			o.Weight = min(o.Weight, p.WeightRatio*usual)
		}
		scale = append(scale, float32(float64(d)/1000))
		shares = append(shares, float64(o.Weight*uint64(d)))
		total += shares[len(shares)-1]
	}
	for i, s := range shares {
		if p.Aggregator == Mean {
			scale[i] = float32(s / total)
		}
	}
	if p.Clip {
		for i, c := range referenceClip(vectors, at, end) {
			scale[i] = float32(scale[i] * c)
		}
	}
	return scale
}

func referenceClip(vectors [][]float32, at, end int) (clip []float32) {
	var norms []float64
	for _, v := range vectors {
		var lanes [8]float64
		for j, x := range v[at:end] {
			lanes[j%8] += float64(x) * float64(x)
		}
		even, odd := (lanes[0]+lanes[4])+(lanes[2]+lanes[6]), (lanes[1]+lanes[5])+(lanes[3]+lanes[7])
		norms = append(norms, math.Sqrt(even+odd))
	}
	sorted := slices.Sorted(slices.Values(norms))
	median := (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
	for _, n := range norms {
		c := float32(1)
		if n > median {
			c = float32(median / n)
		}
		clip = append(clip, c)
	}
	return clip
}

// trimmed keeps the k lowest and k highest so far aside and adds what is certainly neither, in the
// order of arrival.
func trimmed(values []float32, k int) (s float32) {
	aside := slices.Sorted(slices.Values(values[:2*k]))
	low, high := slices.Clone(aside[:k]), aside[k:]
	insert := func(sorted []float32, v float32) []float32 {
		at, _ := slices.BinarySearch(sorted, v)
		return slices.Insert(sorted, at, v)
	}
	for _, v := range values[2*k:] {
		low = insert(low, v)
		high = insert(high, low[k])
		low = low[:k]
		s += high[0]
		high = slices.Delete(high, 0, 1)
	}
	return s / float32(len(values)-2*k)
}
