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
	var m CosineMean
	m.Add(cols)
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	p.of.cosines.Join(m)
}

// chosen says whether frame f is one of those that are compared.
func (p *ownPiece) chosen(f int) bool {
	stride := (p.last - p.first + cosineFrames - 1) / cosineFrames
	return (f-p.first)%stride == stride/2
}

// Cosine is the mean cosine over all pairs of contributions, on some frames of what was reduced
// here so far.
func (r *Reduction) Cosine() CosineMean {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.schedule.cosine()
}

// CosineMean is a mean of cosines. The zero value has none.
type CosineMean struct {
	sum float64
	n   int
}

// Add takes in the mean cosine of all pairs of columns, vectors of equal length. Columns that are
// zero do not count, and fewer than two other columns add nothing. The time is linear in the number
// of columns, although the number of pairs is not: the square of the sum of unit vectors contains
// all pairs, |u_1 + ... + u_n|^2 = n + the sum over all ordered pairs of u_i·u_j.
func (m *CosineMean) Add(cols [][]float32) {
	if len(cols) < 2 {
		return
	}
	units := make([]float64, 0, len(cols)) // 1/norm of the columns that count
	var counted [][]float32
	for _, c := range cols {
		if square := kernel.NormSq(c); square > 0 {
			counted, units = append(counted, c), append(units, 1/math.Sqrt(square))
		}
	}
	n := float64(len(counted))
	if n < 2 {
		return
	}
	m.sum += max(-1, min(1, (sumSquare(counted, units)-n)/(n*(n-1))))
	m.n++
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

// Join adds the values of another mean.
func (m *CosineMean) Join(o CosineMean) {
	m.sum, m.n = m.sum+o.sum, m.n+o.n
}

// Value is the mean of what was added; ok is false if nothing was.
func (m CosineMean) Value() (c float64, ok bool) {
	if m.n == 0 {
		return 0, false
	}
	return m.sum / float64(m.n), true
}
