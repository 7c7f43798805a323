package allreduce

import (
	"math"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// reference computes what a reduction must give, the slow and plain way: all vectors in one place,
// one coordinate at a time. order is that of the sums.
func reference(p Params, plan slot.Plan, vectors [][]float32, order []int) []float32 {
	out := make([]float32, p.Fragments[0])
	for at := 0; at < len(out); at += p.FrameElements {
		end := min(at+p.FrameElements, len(out))
		scale := referenceScale(p, plan)
		if p.Clip {
			for i, c := range referenceClip(vectors, at, end) {
				scale[i] = float32(scale[i] * c)
			}
		}
		for j := at; j < end; j++ {
			values := make([]float32, len(vectors))
			for at, i := range order {
				values[at] = float32(scale[i] * vectors[i][j])
			}
			switch p.Aggregator {
			case Mean:
				out[j] = sum(values)
			case TrimmedMean:
				out[j] = trimmed(values, p.TrimPermille*len(values)/1000)
			case Median:
				out[j] = trimmed(values, (len(values)-1)/2)
			}
		}
	}
	return out
}

func referenceScale(p Params, plan slot.Plan) []float32 {
	var total float64
	var shares []float64
	var discounts []float32
	for _, o := range plan.Offers {
		d := p.Discount[plan.Slot-1-o.Base]
		discounts = append(discounts, float32(float64(d)/1000))
		shares = append(shares, float64(o.Weight*uint64(d)))
		total += shares[len(shares)-1]
	}
	if p.Aggregator != Mean {
		return discounts
	}
	var scale []float32
	for _, s := range shares {
		scale = append(scale, float32(s/total))
	}
	return scale
}

func referenceClip(vectors [][]float32, at, end int) []float32 {
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
	var clip []float32
	for _, n := range norms {
		c := float32(1)
		if n > median {
			c = float32(median / n)
		}
		clip = append(clip, c)
	}
	return clip
}

func sum(values []float32) (s float32) {
	for _, v := range values {
		s += v
	}
	return s
}

// trimmed keeps the k lowest and k highest so far aside and adds what is certainly neither, in the
// order of arrival.
func trimmed(values []float32, k int) float32 {
	first := slices.Sorted(slices.Values(values[:2*k]))
	low, high := slices.Clone(first[:k]), slices.Clone(first[k:])
	var s float32
	for _, v := range values[2*k:] {
		low = append(low, v)
		slices.Sort(low)
		high = append(high, low[k])
		low = low[:k]
		slices.Sort(high)
		s += high[0]
		high = high[1:]
	}
	return s / float32(len(values)-2*k)
}
