package kernel

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestMix(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := vector(t)
		a, b := draw("a"), draw("b")
		alpha := rapid.Float32Range(0, 0.9999).Draw(t, "alpha")
		want := slices.Clone(b)
		for j := range want {
			if alpha > 0 {
				left, right := alpha*a[j], (1-alpha)*b[j]
				want[j] = left + right
			}
		}
		got := make([]float32, len(a))
		Mix(got, a, b, alpha)
		equalBits(t, "Mix", got, want)
		Mix(a, a, b, alpha)
		equalBits(t, "Mix in place", a, want)
	})
}

// With alpha 0 nothing of the first is left, not even what is not finite or the sign of a zero.
func TestMixWithNothing(t *testing.T) {
	nan, zero := float32(math.NaN()), float32(math.Copysign(0, -1))
	got := []float32{nan, 1, float32(math.Inf(1))}
	Mix(got, got, []float32{1, zero, 3}, 0)
	equalBits(t, "Mix", got, []float32{1, zero, 3})
}
