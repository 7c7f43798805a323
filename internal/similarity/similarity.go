// Package similarity measures how similar vectors are, for people that watch a run: norms and
// cosines of pseudo-gradients. Peers do not agree on these numbers, and no root depends on them.
// Arithmetic that must agree is in package kernel.
//
// Vectors are float32 and finite, as kernel.Bounded has it; sums are float64.
package similarity

import "math"

// Sums determine the norms and the cosine of two vectors. The sums of parts of a vector can be
// added.
type Sums struct {
	AA, AB, BB float64 // scalar products
}

// Of measures two vectors of equal length. It panics if they are not.
func Of(a, b []float32) Sums {
	if len(a) != len(b) {
		panic("similarity: vectors of different lengths")
	}
	var aa, ab, bb, cc, cd, dd float64 // two of each: an addition waits for the one before
	for len(a) >= 2 && len(b) >= 2 {
		x, y := float64(a[0]), float64(b[0])
		v, w := float64(a[1]), float64(b[1])
		aa, ab, bb = aa+x*x, ab+x*y, bb+y*y
		cc, cd, dd = cc+v*v, cd+v*w, dd+w*w
		a, b = a[2:], b[2:]
	}
	for j := range a {
		x, y := float64(a[j]), float64(b[j])
		aa, ab, bb = aa+x*x, ab+x*y, bb+y*y
	}
	return Sums{aa + cc, ab + cd, bb + dd}
}

// Block is how many elements Sampled takes in one place.
const Block = 1 << 12

// Sampled measures at most so many elements, in blocks at equal distances, and scales the sums to
// the whole vector, so that its time is bounded for vectors of any length. For shorter vectors it
// equals Of. get lends the two vectors' elements [begin, end), which hold until it is called again.
func Sampled(elements, most int, get func(begin, end int) (a, b []float32, err error)) (Sums, error) {
	var s Sums
	seen := 0
	blocks := (elements + Block - 1) / Block
	stride := max(1, (elements+most-1)/max(1, most))
	for i := stride / 2; i < blocks; i += stride {
		begin := i * Block
		end := min(elements, begin+Block)
		a, b, err := get(begin, end)
		if err != nil {
			return Sums{}, err
		}
		s.Add(Of(a, b))
		seen += end - begin
	}
	if seen > 0 && seen < elements {
		k := float64(elements) / float64(seen)
		s.AA, s.AB, s.BB = k*s.AA, k*s.AB, k*s.BB
	}
	return s, nil
}

// Add adds the sums of another part.
func (s *Sums) Add(t Sums) {
	s.AA, s.AB, s.BB = s.AA+t.AA, s.AB+t.AB, s.BB+t.BB
}

// Norms are the Euclidean norms of the two vectors.
func (s Sums) Norms() (a, b float64) { return math.Sqrt(s.AA), math.Sqrt(s.BB) }

// Cosine is the cosine of the angle between the two vectors; ok is false where one of them is zero.
func (s Sums) Cosine() (c float64, ok bool) {
	if s.AA == 0 || s.BB == 0 {
		return 0, false
	}
	return clamp(s.AB / math.Sqrt(s.AA) / math.Sqrt(s.BB)), true
}

// clamp corrects rounding errors.
func clamp(c float64) float64 { return max(-1, min(1, c)) }

// Mean is a mean of cosines. The zero value has none.
type Mean struct {
	sum float64
	n   int
}

// Add takes in the mean cosine of all pairs of columns, vectors of equal length. Columns that are
// zero do not count, and fewer than two other columns add nothing. The time is linear in the number
// of columns, although the number of pairs is not: the square of the sum of unit vectors contains
// all pairs, |u_1 + ... + u_n|^2 = n + the sum over all ordered pairs of u_i·u_j.
func (m *Mean) Add(cols [][]float32) {
	if len(cols) < 2 {
		return
	}
	units := make([]float64, 0, len(cols)) // 1/norm of the columns that count
	var counted [][]float32
	for _, c := range cols {
		if s := Of(c, c); s.AA > 0 {
			counted, units = append(counted, c), append(units, 1/math.Sqrt(s.AA))
		}
	}
	n := float64(len(counted))
	if n < 2 {
		return
	}
	m.sum += clamp((square(counted, units) - n) / (n * (n - 1)))
	m.n++
}

// square is the squared norm of the columns' sum, each scaled.
func square(cols [][]float32, scale []float64) (s float64) {
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
func (m *Mean) Join(o Mean) {
	m.sum, m.n = m.sum+o.sum, m.n+o.n
}

// Value is the mean of what was added; ok is false if nothing was.
func (m Mean) Value() (c float64, ok bool) {
	if m.n == 0 {
		return 0, false
	}
	return m.sum / float64(m.n), true
}
