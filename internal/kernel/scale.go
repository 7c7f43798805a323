package kernel

import (
	"math"
	"slices"
)

// NormSq returns the squared Euclidean norm of x, in float64. Element j is added to lane j%8, lanes
// start from 0, and the lanes are combined as ((0+4)+(2+6)) + ((1+5)+(3+7)). A caller that takes a
// vector in pieces gets other bits than one that takes it whole: the pieces must be agreed.
func NormSq(x []float32) float64 {
	var l [8]float64
	i := strided(len(x), stride)
	normSqAVX2(&l, x[:i])
	dotGo(&l, x[i:], x[i:])
	return combine(&l)
}

func combine(l *[8]float64) float64 {
	return ((l[0] + l[4]) + (l[2] + l[6])) + ((l[1] + l[5]) + (l[3] + l[7]))
}

// ClipScales returns for each contribution the factor min(1, median/norm) that brings its norm down
// to at most the median of all norms; normSq holds their squared norms, finite, as NormSq gives
// them. The median of an even number is the mean of the two in the middle. A zero norm gets 1.
func ClipScales(normSq []float64) []float32 {
	norms := make([]float64, len(normSq))
	for i, q := range normSq {
		norms[i] = math.Sqrt(q)
	}
	limit := middle(norms)
	scale := make([]float32, len(norms))
	for i, n := range norms {
		scale[i] = 1
		if n > limit {
			scale[i] = float32(limit / n)
		}
	}
	return scale
}

// middle returns the median of x, 0 when x is empty.
func middle(x []float64) float64 {
	if len(x) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(x))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// MeanScales returns weight/total for each weight (tokens or samples), the scales of a weighted
// mean. The total is a float64 sum in the given order. If all weights are zero each gets 1/N.
func MeanScales(weights []uint64) []float32 {
	total := 0.0
	for _, w := range weights {
		total += float64(w)
	}
	scale := make([]float32, len(weights))
	for i, w := range weights {
		scale[i] = float32(float64(w) / total)
		if total == 0 {
			scale[i] = float32(1 / float64(len(weights)))
		}
	}
	return scale
}
