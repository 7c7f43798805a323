package slot

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

func claiming(weights ...uint64) (offers []Offer) {
	for i, w := range weights {
		offers = append(offers, Offer{Peer: PeerID(fmt.Sprintf("%03d", i)), Weight: w, NormSq: 1})
	}
	return offers
}

func ofNorms(norms ...float64) (offers []Offer) {
	for i, v := range norms {
		offers = append(offers, Offer{Peer: PeerID(fmt.Sprintf("%03d", i)), Weight: 10, NormSq: v * v})
	}
	return offers
}

func TestWeightsAreCapped(t *testing.T) {
	for _, c := range []struct {
		name  string
		w     Weighing
		claim []uint64
		want  []uint64
	}{
		{"no ratio", Weighing{Usual: 10}, []uint64{1, 1 << 50}, []uint64{1, 1 << 50}},
		{"2^50", Weighing{Ratio: 8, Usual: 10}, []uint64{10, 1 << 50, 11}, []uint64{10, 80, 11}},
		{"a box of eight", Weighing{Ratio: 8, Usual: 10}, []uint64{10, 80, 9}, []uint64{10, 80, 9}},
		{"from 1 to 8", Weighing{Ratio: 8, Usual: 1}, []uint64{1, 2, 4, 8}, []uint64{1, 2, 4, 8}},
		{"nothing recorded", Weighing{Ratio: 8}, []uint64{10, 1 << 50, 12}, []uint64{10, 96, 12}},
		{"nothing recorded, two", Weighing{Ratio: 8}, []uint64{10, 1 << 50}, []uint64{10, 80}},
		{"one alone", Weighing{Ratio: 8}, []uint64{1 << 50}, []uint64{1 << 50}},
		{"a product beyond 64 bits", Weighing{Ratio: 1 << 16, Usual: 1 << 50}, []uint64{1 << 60}, []uint64{1 << 60}},
		{"none", Weighing{Ratio: 8, Empties: true}, nil, nil},
	} {
		if got := c.w.Weights(claiming(c.claim...)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestEmptyContributions(t *testing.T) {
	for _, c := range []struct {
		name  string
		norms []float64
		empty []int
	}{
		{"none", nil, nil},
		{"one", []float64{0}, nil},
		{"all zero", []float64{0, 0, 0}, nil},
		{"a zero", []float64{1, 0, 2}, []int{1}},
		{"just a thousandth", []float64{1, 1e-3 * (1 + 1e-9), 1}, nil},
		{"less than a thousandth", []float64{1, .999e-3, 1}, []int{1}},
		{"most say that there is nothing", []float64{0, 0, 5}, nil},
		{"half of four say so", []float64{0, 0, 5, 5}, nil},
		{"half of four send huge values", []float64{1e15, 1, 1, 1e15}, nil},
		{"two", []float64{3, 0}, []int{1}},
		{"two, and one is tiny", []float64{3, 1e-9}, nil},
		{"two, and one is huge", []float64{1e15, 1}, nil},
		{"two zeros", []float64{0, 0}, nil},
		{"subnormal squares", []float64{1e-160, 1e-161, 0}, []int{2}},
	} {
		offers := ofNorms(c.norms...)
		empty := Empty(offers)
		var got []int
		for i := range offers {
			if empty.Has(i) {
				got = append(got, i)
			}
		}
		if !slices.Equal(got, c.empty) {
			t.Errorf("%s: %v are empty, want %v", c.name, got, c.empty)
		}
		for i, w := range (Weighing{Empties: true}).Weights(offers) {
			if (w == 0) != empty.Has(i) {
				t.Errorf("%s: contribution %d weighs %d", c.name, i, w)
			}
		}
		if slices.Max(append((Weighing{Empties: true}).Weights(offers), 0)) == 0 && len(offers) > 0 {
			t.Errorf("%s: nobody weighs anything", c.name)
		}
	}
}

// Whatever a minority claims: weights are within the cap, the order of claims is kept, and no
// honest weight changes.
func TestLiarsDoNotMoveHonestWeights(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		honest := 1 + r.IntN(9)
		offers := make([]Offer, honest+r.IntN(honest))
		for i := range offers {
			offers[i] = Offer{Weight: 10 + r.Uint64N(71), NormSq: 1 + 899*r.Float64()}
			if i >= honest {
				norms := []float64{0, r.ExpFloat64(), math.MaxFloat64}
				offers[i] = Offer{Weight: r.Uint64() >> r.IntN(64), NormSq: norms[r.IntN(3)]}
			}
		}
		weights := Weighing{Ratio: 8, Usual: 10 + 70*r.Uint64N(2), Empties: true}.Weights(offers)
		for i, o := range offers {
			if i < honest && weights[i] != o.Weight || weights[i] > 8*80 {
				t.Fatalf("a weight of %d became %d, of %v", o.Weight, weights[i], offers)
			}
			for j, p := range offers {
				if weights[i] > 0 && weights[j] > 0 && o.Weight < p.Weight && weights[i] > weights[j] {
					t.Fatalf("%d weighs %d, and %d only %d", o.Weight, weights[i], p.Weight, weights[j])
				}
			}
		}
	}
}

func TestOffersStateANorm(t *testing.T) {
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, math.Copysign(0, -1)} {
		r := wire.NewReader(Offer{Peer: "a", NormSq: v}.Append(nil))
		if ReadOffer(r); r.Done() == nil {
			t.Errorf("a squared norm of %v was read", v)
		}
	}
	for _, v := range []float64{0, 1, math.MaxFloat64, math.SmallestNonzeroFloat64} {
		r := wire.NewReader(Offer{Peer: "a", NormSq: v}.Append(nil))
		if o := ReadOffer(r); r.Done() != nil || o.NormSq != v {
			t.Errorf("a squared norm of %v became %v", v, o.NormSq)
		}
	}
	leaves := []FrameLeaf{{NormSq: 1}, {NormSq: math.NaN()}, {NormSq: 2.5}, {NormSq: -7}, {NormSq: math.Inf(1)}}
	if got := TotalNormSq(leaves); got != 3.5 {
		t.Errorf("all frames have %v", got)
	}
}
