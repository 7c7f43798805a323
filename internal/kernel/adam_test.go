package kernel

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

func TestDelayedSteps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := vector(t)
		p, v, b, g := draw("p"), draw("v"), draw("b"), draw("g")
		lr, mu, share := rapid.Float32Range(0, 2).Draw(t, "lr"), rapid.Float32Range(0, 1).Draw(t, "mu"),
			rapid.Float32Range(0, 1).Draw(t, "share")
		n := len(p)
		sum, plain, with, state := make([]float32, n), make([]float32, n), make([]float32, n), make([]float32, n)
		for j := range n {
			sum[j] = b[j] + g[j]
			plain[j] = p[j] - float32(lr*g[j])
			state[j] = float32(mu*v[j]) + float32(share*sum[j])
			direction := g[j] + float32(mu*state[j])
			with[j] = p[j] - float32(lr*direction)
		}
		q, c := append([]float32(nil), p...), append([]float32(nil), b...)
		DelayedStep(q, c, g, lr)
		equalBits(t, "DelayedStep p", q, plain)
		equalBits(t, "DelayedStep b", c, sum)
		DelayedMomentumStep(p, v, b, g, lr, mu, share)
		equalBits(t, "DelayedMomentumStep p", p, with)
		equalBits(t, "DelayedMomentumStep v", v, state)
		equalBits(t, "DelayedMomentumStep b", b, make([]float32, n))
	})
}

// The kernel is its equations, each operation rounded once.
func TestAdamStep(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := vector(t)
		p, m, v, g := draw("p"), draw("m"), draw("v"), draw("g")
		b1, b2 := rapid.Float32Range(0, 0.999).Draw(t, "beta1"), rapid.Float32Range(0.01, 0.999).Draw(t, "beta2")
		step := rapid.Uint64Range(1, 1<<40).Draw(t, "step")
		lr := rapid.Float32Range(1e-6, 2).Draw(t, "lr")
		a := AdamAt(lr, b1, b2, 1e-8, step)
		params, first, second := make([]float32, len(p)), make([]float32, len(p)), make([]float32, len(p))
		for j := range p {
			v[j] = float32(math.Abs(float64(v[j])))
			first[j] = float32(b1*m[j]) + float32(float32(1-float64(b1))*g[j])
			square := float32(float32(float32(1-float64(b2))*g[j]) * g[j])
			second[j] = float32(b2*v[j]) + square
			spread := float32(math.Sqrt(float64(second[j])))
			spread = float32(spread/a.Root) + 1e-8
			params[j] = p[j] - float32(float32(a.Size*first[j])/spread)
		}
		AdamStep(p, m, v, g, a)
		equalBits(t, "p", p, params)
		equalBits(t, "m", m, first)
		equalBits(t, "v", v, second)
	})
}

// The scalars are near their exact values, however many steps there were.
func TestAdamScalarsAreExactButForRounding(t *testing.T) {
	const prec = 400
	for _, beta := range []float32{0, 0.5, 0.9, 0.99, 0.999} {
		exact, b := big.NewFloat(1).SetPrec(prec), new(big.Float).SetPrec(prec).SetFloat64(float64(beta))
		for step := uint64(1); step <= 3000; step++ {
			exact.Mul(exact, b)
			rest, _ := new(big.Float).Sub(big.NewFloat(1).SetPrec(prec), exact).Float64()
			a := AdamAt(0.3, beta, max(beta, 0.01), 1e-8, step)
			if want := float64(float32(0.3)) / rest; math.Abs(float64(a.Size)-want) > 1e-7*want {
				t.Fatalf("beta %v, step %d: size %v, want %v", beta, step, a.Size, want)
			}
			if want := math.Sqrt(rest); beta > 0 && math.Abs(float64(a.Root)-want) > 1e-7*want {
				t.Fatalf("beta %v, step %d: root %v, want %v", beta, step, a.Root, want)
			}
		}
	}
	if a := AdamAt(0.3, 0.9, 0.99, 1e-8, math.MaxUint64); a.Size != 0.3 || a.Root != 1 {
		t.Errorf("after 2^64 steps: %+v", a)
	}
}

// The largest values that may come leave all finite, and the element can move again later.
func TestAdamStaysFinite(t *testing.T) {
	below := math.Nextafter32(Limit, 0)
	p, m, v := make([]float32, 2), make([]float32, 2), make([]float32, 2)
	for step := range uint64(40_000) {
		g := []float32{below, -below}
		if step > 3 {
			g = []float32{1, -1}
		}
		AdamStep(p, m, v, g, AdamAt(0.01, 0.9, 0.99, 1e-8, step+1))
		for j := range p {
			if x := float64(p[j] + m[j] + v[j]); math.IsNaN(x) || math.IsInf(float64(p[j]), 0) ||
				v[j] > math.MaxFloat32 {
				t.Fatalf("step %d: p=%v m=%v v=%v", step, p, m, v)
			}
		}
	}
	if p[0] > -1 || p[1] < 1 {
		t.Errorf("they stand still at %v", p)
	}
}
