package kernel

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestNormSqMatchesReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := vector(t)("x")
		var lane [8]float64
		exact := 0.0
		for j, v := range x {
			sq := float64(v) * float64(v)
			lane[j%8] += sq
			exact += sq
		}
		got := NormSq(x)
		if want := lane[0] + lane[4] + (lane[2] + lane[6]) + (lane[1] + lane[5] + (lane[3] + lane[7])); got != want {
			t.Fatalf("got %v, want %v", got, want)
		}
		if math.Abs(got-exact) > 1e-12*exact {
			t.Fatalf("got %v, a plain sum gives %v", got, exact)
		}
	})
}

func TestClipScales(t *testing.T) {
	for _, c := range []struct {
		name  string
		norms []float64
		want  []float32
	}{
		{"none", nil, nil},
		{"one", []float64{3}, []float32{1}},
		{"odd", []float64{1, 8, 2}, []float32{1, 0.25, 1}},
		{"even takes the mean of the middle", []float64{1, 3, 5, 16}, []float32{1, 1, 0.8, 0.25}},
		{"zero norm", []float64{0, 2, 4}, []float32{1, 1, 0.5}},
		{"all zero", []float64{0, 0, 0}, []float32{1, 1, 1}},
		{"most are zero", []float64{0, 0, 7}, []float32{1, 1, 0}},
		{"huge", []float64{1, 1, 1e38}, []float32{1, 1, 1e-38}},
	} {
		t.Run(c.name, func(t *testing.T) {
			sq := make([]float64, len(c.norms))
			for i, n := range c.norms {
				sq[i] = n * n
			}
			equalBits(t, "scales", ClipScales(sq), c.want)
		})
	}
}

// Clipped contributions have at most the median norm, and those below it are left alone.
func TestClipBoundsNorms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sq := rapid.SliceOfN(rapid.Float64Range(0, 1e40), 1, 9).Draw(t, "squared norms")
		norms := make([]float64, len(sq))
		for i := range sq {
			norms[i] = math.Sqrt(sq[i])
		}
		limit, whole := middle(norms), 0
		for i, s := range ClipScales(sq) {
			// a tiny scale is rounded to a subnormal
			if s < 0 || s > 1 || float64(s)*norms[i] > limit*(1+1e-6)+1e-44*norms[i] {
				t.Fatalf("norm %v gets scale %v with median %v", norms[i], s, limit)
			}
			if s == 1 {
				whole++
			}
		}
		if 2*whole < len(sq) {
			t.Fatalf("%d of %d left whole: at least half must be", whole, len(sq))
		}
	})
}

func TestMeanScales(t *testing.T) {
	equalBits(t, "weights", MeanScales([]uint64{1, 0, 3}), []float32{0.25, 0, 0.75})
	equalBits(t, "all zero", MeanScales([]uint64{0, 0}), []float32{0.5, 0.5})
	equalBits(t, "largest", MeanScales([]uint64{math.MaxUint64, math.MaxUint64}), []float32{0.5, 0.5})
	equalBits(t, "none", MeanScales(nil), nil)
}
