package audit

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
	_ "github.com/p2pdiloco/p2pdiloco/internal/onecpu"
)

// No honest outcome is above its bound, whatever went into it.
func TestNoHonestOutcomeIsAboveItsBound(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	tightest := map[string]float64{}
	eachKind(2500, 2048, func(name string, p allreduce.Params) {
		for _, n := range []int{1, 2, 3, 4, 5, 8, 11} {
			for shape, vectors := range shapes(rng, 2500, n) {
				w := newWorld(t, p, vectors, 0, 2)
				for f := range w.in.Frames {
					bound, got := w.Bound(w.norms(f)), kernel.NormSq(w.decoded(f))
					if !(got <= bound) {
						t.Errorf("%s, %d peers, %s: %v is above %v", name, n, shape, got, bound)
					}
					tightest[p.Codec] = max(tightest[p.Codec], got/bound)
				}
			}
		}
	})
	// A figure far below 1 would say that these inputs are not hard enough.
	for name, got := range tightest {
		want := .9
		if name == codec.Int4 || name == codec.Sign {
			want = .3 // what contributors sent was rounded up already
		}
		if got < want {
			t.Errorf("%s: no outcome has more than %.2f of its bound", name, got)
		}
	}
}

// The same for small frames of any values.
func TestBoundOfAnyValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := testParams(rapid.IntRange(1, 40).Draw(t, "elements"), 1024)
		p.Aggregator = rapid.SampledFrom(allreduce.Aggregators()).Draw(t, "aggregator")
		p.Codec, p.Clip = rapid.SampledFrom(codec.Names()).Draw(t, "codec"), rapid.Bool().Draw(t, "clip")
		p.TrimPermille = rapid.IntRange(1, 499).Draw(t, "trim")
		n := rapid.IntRange(1, 12).Draw(t, "peers")
		vectors := make([][]float32, n)
		value := rapid.Float32Range(-0x1p98, 0x1p98)
		if rapid.Bool().Draw(t, "few values") {
			value = rapid.SampledFrom([]float32{0, 1, -1, .5, 7, 1e9, -1e9, 1e-40})
		}
		for i := range vectors {
			vectors[i] = rapid.SliceOfN(value, int(p.Fragments[0]), int(p.Fragments[0])).Draw(t, "values")
		}
		w, err := makeWorld(p, vectors, 0, 1)
		if err != nil {
			t.Fatal(err)
		}
		if got, bound := kernel.NormSq(w.decoded(0)), w.Bound(w.norms(0)); !(got <= bound) {
			t.Fatalf("%v is above %v", got, bound)
		}
	})
}

// An owner that multiplies a usual outcome by -10 is above the bound, whatever the kind of run, and
// where one peer sends a million times too much as well, if it is trimmed or clipped.
func TestTenfoldOutcomeIsAboveItsBound(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	eachKind(4096, 4096, func(name string, p allreduce.Params) {
		for _, n := range []int{1, 2, 3, 4, 6, 8} {
			for _, huge := range []bool{false, true} {
				vectors := noise(rng, 4096, n)
				if huge {
					if n < 6 || p.Aggregator == allreduce.Mean && !p.Clip {
						continue
					}
					for j := range vectors[0] {
						vectors[0][j] *= 1e6
					}
				}
				w := newWorld(t, p, vectors, 0, 1)
				v := w.decoded(0)
				for j := range v {
					v[j] *= -10
				}
				if got, bound := kernel.NormSq(v), w.Bound(w.norms(0)); got <= bound {
					t.Errorf("%s, %d peers, huge %v: %v is not above %v", name, n, huge, got, bound)
				}
			}
		}
	})
}

// What is no norm bounds nothing by itself, but does not lift the bound where it would be trimmed.
func TestBoundOfWhatIsNoNorm(t *testing.T) {
	for _, bad := range []float64{math.NaN(), math.Inf(1), -1, math.MaxFloat64} {
		for _, clip := range []bool{false, true} {
			p := testParams(1024, 1024)
			p.Clip, p.Discount = clip, []uint32{1000}
			w := newWorld(t, p, noise(rand.New(rand.NewPCG(3, 3)), 1024, 6), 0, 1)
			norms := []float64{1, 1, bad, 1, 1, 1}
			if got := w.Bound(norms); !(got < 2) {
				t.Errorf("%v, clip %v: trimmed mean is bounded by %v", bad, clip, got)
			}
			w.Params.Aggregator = allreduce.Mean
			if got := w.Bound(norms); !(got > 0) {
				t.Errorf("%v, clip %v: mean is bounded by %v", bad, clip, got)
			}
		}
	}
}

func TestGrowthOfRounding(t *testing.T) {
	for name, want := range map[string]float64{codec.Int8: 1.0649, codec.Int4: 2.6963} {
		if got := growth(name); math.Abs(got-want) > 1e-3 {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}
