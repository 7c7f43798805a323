package similarity

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(1, math.Abs(a), math.Abs(b)) }

func vector(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for j := range x {
		x[j] = float32(r.NormFloat64())
	}
	return x
}

// cosine as a textbook has it.
func cosine(a, b []float32) float64 {
	var aa, ab, bb float64
	for j := range a {
		aa += float64(a[j]) * float64(a[j])
		ab += float64(a[j]) * float64(b[j])
		bb += float64(b[j]) * float64(b[j])
	}
	return ab / math.Sqrt(aa*bb)
}

func TestOf(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		n := rapid.IntRange(1, 40).Draw(t, "n")
		a, b := vector(r, n), vector(r, n)
		s := Of(a, b)
		if c, ok := s.Cosine(); !ok || !near(c, cosine(a, b)) {
			t.Fatalf("cosine %v %v, want %v", c, ok, cosine(a, b))
		}
		cut := rapid.IntRange(0, n).Draw(t, "cut")
		parts := Of(a[:cut], b[:cut])
		parts.Add(Of(a[cut:], b[cut:]))
		if !near(parts.AA, s.AA) || !near(parts.AB, s.AB) || !near(parts.BB, s.BB) {
			t.Fatalf("in two parts %+v, whole %+v", parts, s)
		}
	})
	if na, nb := Of([]float32{3, 4}, []float32{0, -2}).Norms(); na != 5 || nb != 2 {
		t.Errorf("norms %v and %v", na, nb)
	}
	if c, ok := Of([]float32{1}, []float32{0}).Cosine(); ok {
		t.Errorf("a zero vector has cosine %v", c)
	}
	if c, _ := Of([]float32{0x1p99, 0x1p99}, []float32{0x1p99, 0x1p99}).Cosine(); !near(c, 1) {
		t.Errorf("large vectors have cosine %v", c)
	}
}

// A sample is near to the whole where the vector is alike everywhere, takes no more than it may,
// and is the whole where that is allowed.
func TestSampled(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	const n = 50*Block + 77
	a, b := vector(r, n), vector(r, n)
	for j := range b {
		b[j] += a[j]
	}
	whole := Of(a, b)
	for _, most := range []int{n, n - 1, 10 * Block, Block, 2*n + 1} {
		seen := 0
		s, err := Sampled(n, most, func(begin, end int) ([]float32, []float32, error) {
			seen += end - begin
			return a[begin:end], b[begin:end], nil
		})
		if err != nil || seen == 0 || seen > most || most >= n && seen != n {
			t.Errorf("at most %d: %d seen, %v", most, seen, err)
		}
		for _, pair := range [][2]float64{{s.AA, whole.AA}, {s.AB, whole.AB}, {s.BB, whole.BB}} {
			if math.Abs(pair[0]-pair[1]) > 0.1*pair[1] {
				t.Errorf("at most %d: %v, the whole has %v", most, s, whole)
			}
		}
	}
	broken := errors.New("broken")
	if _, err := Sampled(n, n, func(int, int) ([]float32, []float32, error) {
		return nil, nil,
			broken
	}); err != broken {
		t.Errorf("error %v", err)
	}
	if s, err := Sampled(0, 1, nil); err != nil || s != (Sums{}) {
		t.Errorf("of nothing: %v, %v", s, err)
	}
}

// The mean over all pairs, taken pair by pair.
func TestMean(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 2))
		var m Mean
		var want float64
		frames := rapid.IntRange(1, 3).Draw(t, "frames")
		for range frames {
			length, n := rapid.IntRange(1, 30).Draw(t, "length"), rapid.IntRange(2, 7).Draw(t, "columns")
			var cols [][]float32
			for range n {
				cols = append(cols, vector(r, length))
			}
			var sum float64
			for i := range cols {
				for j := range i {
					sum += cosine(cols[i], cols[j])
				}
			}
			want += sum / float64(n*(n-1)/2) / float64(frames)
			cols = append(cols, make([]float32, length)) // counts for nothing
			var one Mean
			one.Add(cols)
			m.Join(one)
		}
		if got, ok := m.Value(); !ok || !near(got, want) {
			t.Fatalf("%v %v, want %v", got, ok, want)
		}
	})
}

func TestNothingToCompare(t *testing.T) {
	var m Mean
	for _, cols := range [][][]float32{nil, {{1}}, {{1}, {0}}, {{0}, {0}}, {{}, {}}} {
		m.Add(cols)
	}
	if c, ok := m.Value(); ok {
		t.Errorf("%v", c)
	}
	defer func() {
		if recover() == nil {
			t.Error("different lengths: no panic")
		}
	}()
	Of(make([]float32, 1), nil)
}

// What a peer does in each slot: once over its own and the aggregated pseudo-gradient, and over
// some frames of its piece.
func BenchmarkSlot(b *testing.B) {
	const elements, frame, peers = 1 << 24, 1 << 16, 8
	r := rand.New(rand.NewPCG(1, 2))
	x, y := vector(r, elements), vector(r, elements)
	b.Run("Of", func(b *testing.B) {
		b.SetBytes(8 * elements)
		for b.Loop() {
			Of(x, y)
		}
	})
	var cols [][]float32
	for i := range peers {
		cols = append(cols, x[i*frame:][:frame])
	}
	b.Run("Mean", func(b *testing.B) {
		b.SetBytes(4 * frame * peers)
		for b.Loop() {
			var m Mean
			m.Add(cols)
		}
	})
}
