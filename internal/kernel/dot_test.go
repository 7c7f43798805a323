package kernel

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestDotMatchesReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := vector(t)("x")
		y := make([]float32, len(x))
		for j := range y {
			y[j] = x[len(x)-1-j] * 0.75
		}
		var lane [8]float64
		for j, v := range x {
			lane[j%8] += float64(v) * float64(y[j])
		}
		got := Dot(x, y)
		if want := lane[0] + lane[4] + (lane[2] + lane[6]) + (lane[1] + lane[5] + (lane[3] + lane[7])); got != want {
			t.Fatalf("got %v, want %v", got, want)
		}
		if own := Dot(x, x); math.Float64bits(own) != math.Float64bits(NormSq(x)) {
			t.Fatalf("the product with itself is %v, the squared norm %v", own, NormSq(x))
		}
		var s DotSum
		cut := rapid.IntRange(0, len(x)/8).Draw(t, "cut") * 8
		s.Add(x[:cut], y[:cut])
		s.Add(x[cut:], y[cut:])
		if math.Float64bits(s.Value()) != math.Float64bits(got) {
			t.Fatalf("in pieces %v, whole %v", s.Value(), got)
		}
	})
}
