package outeropt

import (
	"math"
	"testing"
)

// Algorithm 3 of arXiv 2401.09135 with c = 0, a contribution at a time in float64: near to it, for
// whatever N, and however many contribute to a step.
func TestDelayedNesterovFollowsItsEquations(t *testing.T) {
	const n, lr, mu = 500, 0.7, 0.9
	for every := range uint64(5) {
		every++
		cfg := Config{Name: DelayedNesterov, LR: lr, Momentum: mu, Every: every}
		opt, err := New(cfg, n)
		if err != nil {
			t.Fatal(err)
		}
		next, at := noise(), At{}
		params := randoms(next, n)
		theta, m, sum := make([]float64, n), make([]float64, n), make([]float64, n)
		for j, p := range params {
			theta[j] = float64(p)
		}
		open := uint64(0)
		for step, contributions := range []uint64{1, 1, 4, 2, 1, 7, 12, 3, 1, 1, 5} {
			g := randoms(next, n)
			at = At{Step: uint64(step) + 1, Contributions: contributions, Open: cfg.OpenAfter(at)}
			opt.Step(params, g, at)
			for range contributions {
				open++
				for j := range g {
					sum[j] += float64(g[j])
					theta[j] -= lr * float64(g[j]) / float64(every)
					if open%every == 0 {
						m[j] = mu*m[j] + sum[j]/float64(every)
						theta[j] -= lr * mu * m[j]
						sum[j] = 0
					}
				}
			}
			if got := cfg.OpenAfter(at); got != open%every {
				t.Fatalf("every %d: %d contributions are open, not %d", every, got, open%every)
			}
		}
		for j := range theta {
			if math.Abs(float64(params[j])-theta[j]) > 2e-5*(1+math.Abs(theta[j])) {
				t.Fatalf("every %d: element %d is %v, the equations give %v", every, j, params[j], theta[j])
			}
		}
	}
}

// The paper's example: three contributions of 1 at rate 1 and momentum .9, N = 3, take a parameter
// from 0 to -1.9, whether they come alone or together.
func TestDelayedNesterovOfThree(t *testing.T) {
	for _, steps := range [][]uint64{{1, 1, 1}, {3}, {2, 1}} {
		cfg := Config{Name: DelayedNesterov, LR: 1, Momentum: 0.9, Every: 3}
		opt, err := New(cfg, 1)
		if err != nil {
			t.Fatal(err)
		}
		p, at := []float32{0}, At{}
		for i, contributions := range steps {
			at = At{Step: uint64(i) + 1, Contributions: contributions, Open: cfg.OpenAfter(at)}
			opt.Step(p, []float32{1}, at)
		}
		if math.Abs(float64(p[0])+1.9) > 1e-6 {
			t.Errorf("contributions %v: the parameter is %v", steps, p[0])
		}
	}
}
