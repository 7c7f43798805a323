package builtin

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// naive is the product by its definition, in float64.
func naive(dst []float32, stride int, a, b matrix, m, n, k int, add bool) []float32 {
	at := func(x matrix, i, j int) float64 { return float64(x.slice(i, j)[0]) }
	out := append([]float32(nil), dst...)
	for i := range m {
		for j := range n {
			sum := 0.0
			if add {
				sum = float64(dst[i*stride+j])
			}
			for l := range k {
				sum += at(a, i, l) * at(b, l, j)
			}
			out[i*stride+j] = float32(sum)
		}
	}
	return out
}

// A product over several tiles, of any transposition and with rows longer than the matrix, is the
// naive one; what lies between the rows of the output is not touched.
func TestMatmul(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, n, k := rapid.IntRange(1, 150).Draw(t, "m"), rapid.IntRange(1, 400).Draw(t, "n"),
			rapid.SampledFrom([]int{1, 7, 64, 1030}).Draw(t, "k")
		if k > 1000 {
			m, n = min(m, 70), min(n, 200)
		}
		gap := rapid.IntRange(0, 3).Draw(t, "gap")
		a := drawMatrix(t, "a", m, k, gap)
		b := drawMatrix(t, "b", k, n, gap)
		dst := mat(drawMatrix(t, "dst", m, n+gap, 0).data, n+gap)
		add := rapid.Bool().Draw(t, "add")
		want := naive(dst.data, dst.stride, a, b, m, n, k, add)
		cores(rapid.IntRange(1, 3).Draw(t, "cores")).matmul(dst, a, b, m, n, k, add)
		for i, v := range dst.data {
			if math.Abs(float64(v-want[i])) > 1e-4*math.Sqrt(float64(k)) {
				t.Fatalf("element %d is %v, want %v", i, v, want[i])
			}
		}
	})
}

// drawMatrix is a rows x cols matrix with entries in [-1, 1), stored either way round.
func drawMatrix(t *rapid.T, name string, rows, cols, gap int) matrix {
	x := uint32(rapid.IntRange(1, math.MaxInt32).Draw(t, name))
	stored, stride := rows, cols+gap
	transposed := rapid.Bool().Draw(t, name+" transposed")
	if transposed {
		stored, stride = cols, rows+gap
	}
	data := make([]float32, stored*stride)
	for i := range data {
		x = x*1664525 + 1013904223
		data[i] = float32(int32(x)) / (1 << 31)
	}
	m := mat(data, stride)
	if transposed {
		m = m.t()
	}
	return m
}
