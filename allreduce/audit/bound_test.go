package audit

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/allreduce/internal/plan"
	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
)

// What is audited is what counts: whatever goes in, and with empty contributions and claims above
// the cap, an honest outcome is that which is recomputed, within its bound, and that of the
// contributions which weigh something alone.
func TestAnHonestOwnerPasses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		elements := rapid.SampledFrom([]int{1, 40, 5000}).Draw(t, "elements")
		p := testParams(elements, 4096)
		p.Aggregator = rapid.SampledFrom(plan.Aggregators()).Draw(t, "aggregator")
		p.Codec, p.Clip = rapid.SampledFrom(codec.Names()).Draw(t, "codec"), rapid.Bool().Draw(t, "clip")
		if p.Codec == codec.TopK {
			p.Aggregator = allreduce.Mean
		}
		p.TrimPermille = rapid.IntRange(1, 499).Draw(t, "trim")
		n := rapid.IntRange(1, 12).Draw(t, "peers")
		value := rapid.Float32Range(-0x1p98, 0x1p98)
		if rapid.Bool().Draw(t, "few values") {
			value = rapid.SampledFrom([]float32{0, 1, -1, .5, 7, 1e9, -1e9, 1e-40})
		}
		values := rapid.SliceOfN(value, 40, 40).Draw(t, "values")
		counted := n
		sizes := slices.Repeat([]float64{1}, n)
		if p.Empties = rapid.Bool().Draw(t, "empties"); p.Empties {
			p.WeightRatio, values = 8, []float32{-5, -2, 1, 4, 3, -1}
			for i := 1; 2*(i+1) < n; i++ {
				if sizes[i] = rapid.SampledFrom([]float64{1, 0, 1e-7}).Draw(t, "size"); sizes[i] < 1 {
					counted--
				}
			}
		}
		w := newWorld(t, p, vectors(elements, n, func(i, j int) float64 {
			return sizes[i] * float64(values[(i*7+j)%len(values)])
		}), 0, (elements+4095)/4096)
		if got := len(w.aggregation().Counted); p.Empties && elements > 1 && got != counted {
			t.Fatalf("%d of %d are counted, %d have something in them", got, n, counted)
		}
		for f := range w.in.Frames {
			frame := w.in.Elements(f, f+1)
			want, err := w.Recompute(frame, w.openings(frame))
			if err != nil || !bytes.Equal(want, w.out.Frame(w.outcome, f)) {
				t.Fatalf("an honest outcome is not what is recomputed (%v)", err)
			}
			if got, bound := kernel.NormSq(w.decoded(f)), w.Bound(w.norms(f)); !(got <= bound) || math.IsInf(bound, 1) {
				t.Fatalf("an honest outcome has %v, above the bound of %v", got, bound)
			}
		}
	})
}

// No honest outcome is above its bound, and some come close to it. An owner that multiplies a usual
// outcome by -10 is above it, whatever the kind of run, and where one peer sends a million times
// too much as well, if it is trimmed or clipped.
func TestOutcomesAndTheirBounds(t *testing.T) {
	rng, tightest := rand.New(rand.NewPCG(1, 1)), map[string]float64{}
	eachKind(5000, 4096, func(name string, p allreduce.Params) {
		for _, n := range []int{1, 2, 5, 8} {
			one := func(b bool) float64 { return map[bool]float64{true: 1}[b] }
			for shape, f := range map[string]func(i, j int) float64{
				"usual":                    func(_, _ int) float64 { return rng.NormFloat64() },
				"zeros":                    func(_, _ int) float64 { return 0 },
				"equal":                    func(_, j int) float64 { return math.Sin(float64(j)) },
				"each its own coordinates": func(i, j int) float64 { return one(j%n == i) },
				"more than half agree":     func(i, j int) float64 { return one((i+j)%n <= n/2) },
				"rounded up, the worst for int4": func(_, j int) float64 {
					return 0.50001 + 6.49999*one(j%256 == 0)
				},
				"rounded up, the worst for int8": func(_, j int) float64 {
					return 7.50001 + 119.49999*one(j%256 == 0)
				},
				"one in a block": func(_, j int) float64 { return one(j%1024 == 5) },
				"subnormal":      func(i, j int) float64 { return float64(i+j%3) * 0x1p-149 },
				"huge":           func(_, _ int) float64 { return rng.NormFloat64() * 0x1p90 },
				"usual, but one": func(i, _ int) float64 { return rng.NormFloat64() * (1 + 1e6*one(i == 0)) },
			} {
				w := newWorld(t, p, vectors(5000, n, f), 0, 2)
				bound, got := w.Bound(w.norms(0)), kernel.NormSq(w.decoded(0))
				if !(got <= bound) {
					t.Errorf("%s, %d peers, %s: %v is above %v", name, n, shape, got, bound)
				}
				tightest[p.Codec] = max(tightest[p.Codec], got/bound)
				robust := n > 5 && (p.Aggregator != allreduce.Mean || p.Clip)
				if (shape == "usual" || shape == "usual, but one" && robust) && 100*got <= bound {
					t.Errorf("%s, %d peers, %s: ten times the outcome is not above %v", name, n, shape, bound)
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
		if name == codec.TopK {
			want = .2 // and all that is sent of a block is large
		}
		if got < want {
			t.Errorf("%s: no outcome has more than %.2f of its bound", name, got)
		}
	}
	for name, want := range map[string]float64{codec.Int8: 1.0649, codec.Int4: 2.6963} {
		if c, err := codec.New(name); err != nil || math.Abs(c.Growth-want) > 1e-3 {
			t.Errorf("%s: rounding lets a norm grow by %v, want %v", name, c.Growth, want)
		}
	}
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

// The usual weight is part of what an owner signs: with another one the outcome is false.
func TestUsualWeightsAreStated(t *testing.T) {
	p := testParams(512, 512)
	p.Aggregator, p.WeightRatio = allreduce.Mean, 2
	w := newWorld(t, p, vectors(512, 3, func(i, j int) float64 { return float64((i + 1) * j % 7) }), 0, 1)
	outcomes := map[string]bool{}
	for _, usual := range []uint64{0, 1, 2} { // of claims 1, 2, 3: caps of 4, 2 and 4
		w.Usual = usual
		b, err := w.Recompute(w.Range, w.openings(w.Range))
		w.must(err)
		outcomes[string(b)] = true
	}
	if len(outcomes) != 2 {
		t.Errorf("%d outcomes by three usual weights, of which two are the same cap", len(outcomes))
	}
}
