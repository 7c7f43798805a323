package chain

import (
	"math"
	"testing"
)

// Values without measure earn no credit, by the norms of members that have earned a seat.
func TestOverlongContributionsEarnNothing(t *testing.T) {
	for _, c := range []struct {
		name, members, contributors string
		norms                       []float64
		want                        string
	}{
		{"just 8 times as long", "A32 B32 C32 x5", "abcx", []float64{1, 2, 3, 8}, "A40 B40 C40 x13"},
		{"longer", "A32 B32 C32 x5", "abcx", []float64{1, 2, 3, 16.01}, "A40 B40 C40 x4"},
		{
			"newcomers do not say what is usual", "A32 B32 x5 y5 z5", "abxyz",
			[]float64{1, 1, 10, 10, 10},
			"A40 B40 x4 y4 z4",
		},
		{"nor do they where many are short", "A32 x5 y5", "axy", []float64{8, .1, .1}, "A40 x13 y13"},
		{"who has earned a seat counts", "A32 b32 c32 x0", "abcx", []float64{1, 10, 10, 80}, "A40 b40 c40 x8"},
		{"newcomers alone", "A32 x0 y0 z0", "xyz", []float64{1, 1, 9}, "A31 x8 y8 z0"},
		{"the others send nothing", "A32 B32 x0", "abx", []float64{0, 0, 9}, "A40 B40 x8"},
		{"an elector", "A32 B32 C32", "abc", []float64{1, 1, 9}, "A40 B40 C31"},
		{"as far as numbers go", "A32 x0", "ax", []float64{math.MaxFloat64 / 2, math.MaxFloat64}, "A40 x8"},
	} {
		w := found(t, seatRules(1), c.members)
		r := w.record(c.contributors, seatElements)
		for i := range r.Contributions {
			r.Contributions[i].NormSq = c.norms[i] * c.norms[i]
			if math.IsInf(r.Contributions[i].NormSq, 0) {
				r.Contributions[i].NormSq = c.norms[i]
			}
		}
		if got := w.stay(r); got != c.want {
			t.Errorf("%s: %s became %s, want %s", c.name, c.members, got, c.want)
		}
	}
}
