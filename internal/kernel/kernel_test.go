package kernel

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// equalBits fails unless the two slices hold the same bits.
func equalBits(t interface {
	Helper()
	Fatalf(string, ...any)
}, what string, got, want []float32,
) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d values, want %d", what, len(got), len(want))
	}
	for j := range got {
		if g, w := math.Float32bits(got[j]), math.Float32bits(want[j]); g != w {
			t.Fatalf("%s: element %d is %v (%08x), want %v (%08x)", what, j, got[j], g, want[j], w)
		}
	}
}

// finite draws values of all magnitudes whose sums and products stay finite.
func finite() *rapid.Generator[float32] {
	return rapid.OneOf(rapid.Float32Range(-1e15, 1e15), rapid.Float32Range(-1, 1),
		rapid.SampledFrom([]float32{0, float32(math.Copysign(0, -1)), 1, -1}))
}

// vector draws a length around the kernels' strides, and a maker of vectors of that length.
func vector(t *rapid.T) func(label string) []float32 {
	n := rapid.OneOf(rapid.IntRange(0, 20), rapid.IntRange(block-2, block+2)).Draw(t, "n")
	return func(label string) []float32 { return rapid.SliceOfN(finite(), n, n).Draw(t, label) }
}

func TestSubAndMul(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := vector(t)
		a, b := draw("a"), draw("b")
		sub, mul := make([]float32, len(a)), make([]float32, len(a))
		for j := range a {
			sub[j], mul[j] = a[j]-b[j], a[j]*b[j]
		}
		got := make([]float32, len(a))
		Sub(got, a, b)
		equalBits(t, "Sub", got, sub)
		Mul(got, a, b)
		equalBits(t, "Mul", got, mul)
		Sub(a, a, b)
		equalBits(t, "Sub in place", a, sub)
	})
}

func TestBoundedMeanFindsTheFirst(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, bad := range []float32{
		inf, -inf, math.MaxFloat32, math.Nextafter32(-2*Limit, -inf), float32(math.NaN()),
		math.Float32frombits(0xffffffff),
	} {
		for n := range 40 {
			x := make([]float32, n)
			for j := range x {
				x[j] = []float32{0, Limit, -2 * Limit, 1}[j%4]
			}
			if got := BoundedMean(x); got != -1 {
				t.Fatalf("%d bounded values: got %d, want -1", n, got)
			}
			for first := range n {
				y := append([]float32(nil), x...)
				y[n-1], y[first] = inf, bad
				if got := BoundedMean(y); got != first {
					t.Fatalf("n=%d: got %d, want %d", n, got, first)
				}
			}
		}
	}
}

func TestBoundedFindsTheFirst(t *testing.T) {
	nan, below := float32(math.NaN()), math.Nextafter32(Limit, 0)
	bad := []float32{
		Limit, -Limit, math.MaxFloat32, nan, float32(math.Inf(1)), float32(math.Inf(-1)),
		math.Float32frombits(0xffffffff), math.Float32frombits(0x7f800001),
	}
	good := []float32{0, float32(math.Copysign(0, -1)), below, -below, math.SmallestNonzeroFloat32}
	for n := range 40 {
		x := make([]float32, n)
		for j := range x {
			x[j] = good[j%len(good)]
		}
		if got := Bounded(x); got != -1 {
			t.Fatalf("%d values below the limit: got %d, want -1", n, got)
		}
		for first := range n {
			for _, b := range bad {
				y := append([]float32(nil), x...)
				y[first], y[n-1] = b, nan
				if got := Bounded(y); got != first {
					t.Fatalf("n=%d: got %d, want %d", n, got, first)
				}
			}
		}
	}
}

func TestSteps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := vector(t)
		p, v, g := draw("p"), draw("v"), draw("g")
		lr, mu := rapid.Float32Range(0, 2).Draw(t, "lr"), rapid.Float32Range(0, 1).Draw(t, "mu")
		n := len(p)
		sgd, heavy, nesterov, state := make([]float32, n), make([]float32, n), make([]float32, n), make([]float32, n)
		for j := range n {
			state[j] = float32(mu*v[j]) + g[j]
			direction := g[j] + float32(mu*state[j])
			sgd[j], heavy[j], nesterov[j] = p[j]-float32(lr*g[j]), p[j]-float32(lr*state[j]), p[j]-float32(lr*direction)
		}
		q := append([]float32(nil), p...)
		SGDStep(q, g, lr)
		equalBits(t, "SGDStep", q, sgd)
		q, w := append([]float32(nil), p...), append([]float32(nil), v...)
		MomentumStep(q, w, g, lr, mu)
		equalBits(t, "MomentumStep p", q, heavy)
		equalBits(t, "MomentumStep v", w, state)
		q, w = append([]float32(nil), p...), append([]float32(nil), v...)
		NesterovStep(q, w, g, lr, mu)
		equalBits(t, "NesterovStep p", q, nesterov)
		equalBits(t, "NesterovStep v", w, state)
	})
}

func TestLengthsMustAgree(t *testing.T) {
	x, y := make([]float32, 3), make([]float32, 4)
	for name, f := range map[string]func(){
		"Sub":              func() { Sub(x, x, y) },
		"Mul":              func() { Mul(x, y, x) },
		"SGDStep":          func() { SGDStep(x, y, 1) },
		"MomentumStep":     func() { MomentumStep(x, y, x, 1, 1) },
		"NesterovStep":     func() { NesterovStep(x, x, y, 1, 1) },
		"DelayedStep":      func() { DelayedStep(x, y, x, 1) },
		"Delayed momentum": func() { DelayedMomentumStep(x, x, y, x, 1, 1, 1) },
		"AdamStep":         func() { AdamStep(x, x, x, y, Adam{}) },
		"MeanInto":         func() { MeanInto(x, [][]float32{x, y}, []float32{1, 1}) },
		"MeanInto scale":   func() { MeanInto(x, [][]float32{x}, []float32{1, 1}) },
		"MeanInto empty":   func() { MeanInto(x, nil, nil) },
		"TrimmedMeanInto":  func() { TrimmedMeanInto(x, [][]float32{x, x}, []float32{1, 1}, 1) },
		"negative trim":    func() { TrimmedMeanInto(x, [][]float32{x, x}, []float32{1, 1}, -1) },
		"GetFloat32s":      func() { GetFloat32s(x, make([]byte, 16)) },
		"Float32s":         func() { Float32s(make([]byte, 5)) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			f()
		})
	}
}
