package allreduce

import (
	"math"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// How many elements of a piece are compared for each pair of contributors: enough for a cosine of
// some thousandths, and fewer where there are many pairs.
const (
	alikeElements = 1 << 16
	alikeProducts = 1 << 28 // elements times pairs
)

// Alike says which way the contributions to a range point: for each pair of them the mean cosine
// over some parts of the range. A mean of cosines does not ask how long the values are, so no part
// counts more than another one. The zero value knows nothing.
type Alike struct {
	n     int
	pairs []float64 // sums of cosines; of (j, i), j < i, at i(i-1)/2 + j
	parts int
}

// NewAlike compares so many contributions, of which Add takes in part after part.
func NewAlike(contributors int) *Alike {
	return &Alike{n: contributors, pairs: make([]float64, contributors*(contributors-1)/2)}
}

// alikeStride says that every so manyth part of a piece is compared.
func alikeStride(elements, contributors int) int {
	pairs := max(1, contributors*(contributors-1)/2)
	compared := max(partElements, min(alikeElements, alikeProducts/pairs))
	return max(1, elements/compared)
}

// Add takes in a part of all contributions.
func (a *Alike) Add(part [][]float32) {
	a.parts++
	lengths, at := make([]float64, a.n), 0
	for i, x := range part {
		lengths[i] = math.Sqrt(product(x, x))
		for j, y := range part[:i] {
			if both := lengths[i] * lengths[j]; both > 0 {
				a.pairs[at] += product(x, y) / both
			}
			at++
		}
	}
}

func product(x, y []float32) float64 {
	var s kernel.DotSum
	s.Add(x, y)
	return s.Value()
}

// Cosine is the mean cosine between two of the contributions.
func (a Alike) Cosine(i, j int) float64 {
	if a.parts == 0 {
		return 0
	}
	if i < j {
		i, j = j, i
	}
	return a.pairs[i*(i-1)/2+j] / float64(a.parts)
}

// Against marks the contributions that point the other way than more than half of the judges'. It
// marks none where the judges' own have nothing in common: near an optimum of members with
// different data, each of them points the other way than the others.
//
// No judge's word counts more than one: a liar among them that shares noise with a stranger moves
// no median. The bound is zero, which lies in the middle between what honest values and their
// opposites have. judges are indices; it takes three at least.
func (a Alike) Against(judges []int) slot.Bitmap {
	if a.parts == 0 || len(judges) < 3 {
		return nil
	}
	toJudges := func(i int) float64 {
		var all []float64
		for _, j := range judges {
			if j != i {
				all = append(all, a.Cosine(i, j))
			}
		}
		return middleOf(all)
	}
	var common []float64
	for _, j := range judges {
		common = append(common, toJudges(j))
	}
	if middleOf(common) <= 0 {
		return nil
	}
	marks := slot.NewBitmap(a.n)
	for i := range a.n {
		if toJudges(i) < 0 {
			marks.Set(i)
		}
	}
	if marks.Count() == 0 {
		return nil
	}
	return marks
}

// middleOf is the median.
func middleOf(x []float64) float64 {
	slices.Sort(x)
	return (x[(len(x)-1)/2] + x[len(x)/2]) / 2
}
