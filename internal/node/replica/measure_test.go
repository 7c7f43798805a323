package replica

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

func TestStatsOfARecord(t *testing.T) {
	got := statsOf(slot.Record{Slot: 9, Contributions: []slot.Offer{
		{Base: 8, Weight: 10},
		{Base: 5, Weight: 20},
		{Base: 8, Weight: 3},
	}}, slot.Weighing{})
	if got.Contributors != 3 || got.Weight != 33 || got.Staleness != 1 || got.MaxStaleness != 3 {
		t.Errorf("%+v", got)
	}
	liar := slot.Record{Slot: 9, Contributions: []slot.Offer{{Base: 8, Weight: 1 << 50}, {Base: 8, Weight: 10}}}
	if got := statsOf(liar, slot.Weighing{Ratio: 8, Usual: 12}); got.Weight != 8*12+10 {
		t.Errorf("a claim of 2^50: %+v", got)
	}
	if got := statsOf(slot.Record{Slot: 9}, slot.Weighing{Ratio: 8}); got.Staleness != 0 {
		t.Errorf("an empty one: %+v", got)
	}
}

// A sample is near to the whole where the vectors are alike everywhere, takes no more than it may,
// and is the whole where that is allowed.
func TestSample(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	const n = 50*sampleBlock + 77
	a, b := make([]float32, n), make([]float32, n)
	var aa, ab, bb float64
	for j := range a {
		a[j] = float32(r.NormFloat64())
		b[j] = float32(r.NormFloat64()) + a[j]
		x, y := float64(a[j]), float64(b[j])
		aa, ab, bb = aa+x*x, ab+x*y, bb+y*y
	}
	for _, most := range []int{n, n - 1, 10 * sampleBlock, sampleBlock, 2*n + 1} {
		seen := 0
		s, err := sample(n, most, func(begin, end int) ([]float32, []float32, error) {
			seen += end - begin
			return a[begin:end], b[begin:end], nil
		})
		if err != nil || seen == 0 || seen > most || most >= n && seen != n {
			t.Errorf("at most %d: %d seen, %v", most, seen, err)
		}
		for _, pair := range [][2]float64{{s.aa, aa}, {s.ab, ab}, {s.bb, bb}} {
			if math.Abs(pair[0]-pair[1]) > 0.1*pair[1] {
				t.Errorf("at most %d: %v, the whole has %v, %v, %v", most, s, aa, ab, bb)
			}
		}
	}
	broken := errors.New("broken")
	if _, err := sample(n, n, func(int, int) ([]float32, []float32, error) { return nil, nil, broken }); err != broken {
		t.Errorf("error %v", err)
	}
	if s, err := sample(0, 1, nil); err != nil || s != (products{}) {
		t.Errorf("of nothing: %v, %v", s, err)
	}
	if c := (products{aa: 1}).cosine(); !math.IsNaN(c) {
		t.Error("a zero vector has a cosine")
	}
}
