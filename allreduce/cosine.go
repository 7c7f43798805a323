package allreduce

import (
	"math"

	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
)

// cosineFrames is the greatest number of frames of a piece whose contributions are compared. The
// figure is for people that watch a run, so few frames do.
const cosineFrames = 4

// compare takes in how alike the contributions to frame f are, if that is one of those chosen: at
// equal distances over the piece. It only reads.
func (p *ownPiece) compare(f int, cols [][]float32) {
	if !p.chosen(f) {
		return
	}
	c, ok := pairCosine(cols)
	if !ok {
		return
	}
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	p.of.cosines.sum += c
	p.of.cosines.n++
}

// chosen says whether frame f is one of those that are compared.
func (p *ownPiece) chosen(f int) bool {
	stride := (p.last - p.first + cosineFrames - 1) / cosineFrames
	return (f-p.first)%stride == stride/2
}

// Cosine is the mean cosine over all pairs of contributions, on some frames of what was reduced
// here so far; ok is false if there are none.
func (r *Reduction) Cosine() (c float64, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rot, _ := r.schedule.(*rotation)
	if rot == nil || rot.cosines.n == 0 {
		return 0, false
	}
	return rot.cosines.sum / float64(rot.cosines.n), true
}

// pairCosine is the mean cosine of all pairs of columns, vectors of equal length. Columns that are
// zero do not count, and ok is false if fewer than two others are there. The time is linear in the
// number of columns, although the number of pairs is not: the square of the sum of unit vectors
// contains all pairs, |u_1 + ... + u_n|^2 = n + the sum over all ordered pairs of u_i·u_j.
func pairCosine(cols [][]float32) (c float64, ok bool) {
	units := make([]float64, 0, len(cols)) // 1/norm of the columns that count
	var counted [][]float32
	for _, c := range cols {
		if square := kernel.NormSq(c); square > 0 {
			counted, units = append(counted, c), append(units, 1/math.Sqrt(square))
		}
	}
	n := float64(len(counted))
	if n < 2 {
		return 0, false
	}
	return max(-1, min(1, (sumSquare(counted, units)-n)/(n*(n-1)))), true
}

// sumSquare is the squared norm of the columns' sum, each scaled.
func sumSquare(cols [][]float32, scale []float64) (s float64) {
	for j := range cols[0] {
		var x float64
		for i, c := range cols {
			x += scale[i] * float64(c[j])
		}
		s += x * x
	}
	return s
}
