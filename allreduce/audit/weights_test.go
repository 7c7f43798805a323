package audit

import (
	"bytes"
	"fmt"
	"math"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"pgregory.net/rapid"
)

// What is audited is what counts: with empty contributions and claims above the cap an honest
// outcome is that which is recomputed, within its bound, and that of the contributions which weigh
// something alone.
func TestAuditsKnowWhatWeighs(t *testing.T) {
	eachKind(1500, 1024, func(name string, p allreduce.Params) {
		p.Empties, p.WeightRatio = true, 8
		rapid.Check(t, func(t *rapid.T) {
			n := rapid.IntRange(3, 7).Draw(t, "contributors")
			var vectors, counted [][]float32
			for i := range n {
				size := float32(1)
				if i > 0 && 2*(i+1) < n && rapid.Bool().Draw(t, "empty") {
					size = rapid.SampledFrom([]float32{0, 1e-7}).Draw(t, "size")
				}
				v := make([]float32, 1500)
				for j := range v {
					v[j] = size * float32((i+3)*(j+1)%11-5)
				}
				vectors = append(vectors, v)
				if size == 1 {
					counted = append(counted, append([]float32(nil), v...))
				}
			}
			w, err := makeWorld(p, vectors, 0, 2)
			if err != nil {
				t.Fatal(err)
			}
			if got := len(w.aggregation().Counted); got != len(counted) {
				t.Fatalf("%s: %d of %d are counted, %d have something in them", name, got, n, len(counted))
			}
			for f := range w.in.Frames {
				frame := w.in.Elements(f, f+1)
				var openings []Opening
				for _, c := range w.own {
					o, err := OpenContribution(p, 0, c, frame)
					if err != nil {
						t.Fatal(err)
					}
					openings = append(openings, o)
				}
				want, err := w.Recompute(frame, openings)
				if err != nil || !bytes.Equal(want, w.out.Frame(w.outcome, f)) {
					t.Fatalf("%s: an honest outcome is not what is recomputed (%v)", name, err)
				}
				norm := 0.0
				for _, v := range w.decoded(f) {
					norm += float64(v) * float64(v)
				}
				if bound := w.Bound(w.norms(f)); norm > bound || math.IsInf(bound, 1) {
					t.Fatalf("%s: an honest outcome has %v, above the bound of %v", name, norm, bound)
				}
			}
		})
	})
}

// The usual weight is part of what an owner signs: with another one the outcome is false.
func TestUsualWeightsAreStated(t *testing.T) {
	p := testParams(512, 512)
	p.Aggregator, p.WeightRatio = allreduce.Mean, 2
	vectors := make([][]float32, 3)
	for i := range vectors {
		for j := range 512 {
			vectors[i] = append(vectors[i], float32((i+1)*j%7))
		}
	}
	w := newWorld(t, p, vectors, 0, 1)
	r := slot.Range{End: 512}
	outcomes := map[string]bool{}
	for _, usual := range []uint64{0, 1, 2} { // of claims 1, 2, 3: caps of 4, 2 and 4
		w.Usual = usual
		b, err := w.Recompute(r, w.openings(t, r))
		if err != nil {
			t.Fatal(err)
		}
		outcomes[fmt.Sprintf("%x", b)] = true
		again, err := New(p, w.Statement)
		if err != nil || again.Usual != usual {
			t.Fatal(err, again)
		}
	}
	if len(outcomes) != 2 {
		t.Errorf("%d outcomes by three usual weights, of which two are the same cap", len(outcomes))
	}
}
