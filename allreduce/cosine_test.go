package allreduce

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// The mean cosine over all pairs is that taken pair by pair; a column of zeros
// counts for nothing.
func TestPairCosine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 2))
		for range rapid.IntRange(1, 3).Draw(t, "frames") {
			length, n := rapid.IntRange(1, 30).Draw(t, "length"), rapid.IntRange(2, 7).Draw(t, "columns")
			cols := make([][]float32, n, n+1)
			for i := range cols {
				cols[i] = make([]float32, length)
				for j := range cols[i] {
					cols[i][j] = float32(r.NormFloat64())
				}
			}
			var sum float64
			for i := range cols {
				for j := range i {
					sum += dot(cols[i], cols[j]) / math.Sqrt(dot(cols[i], cols[i])*dot(cols[j], cols[j]))
				}
			}
			want := sum / float64(n*(n-1)/2)
			if got, ok := pairCosine(append(cols, make([]float32, length))); !ok || math.Abs(got-want) > 1e-9 {
				t.Fatalf("%v %v, want %v", got, ok, want)
			}
		}
	})
	for _, cols := range [][][]float32{nil, {{1}}, {{1}, {0}}, {{0}, {0}}, {{}, {}}} {
		if _, ok := pairCosine(cols); ok {
			t.Error("there was nothing to compare")
		}
	}
}
