package outeropt

import (
	"math"
	"testing"
)

// Delayed Nesterov as its equations stand, in float64: near to it, for whatever number of steps to
// the momentum.
func TestDelayedNesterovFollowsItsEquations(t *testing.T) {
	const n, lr, mu = 500, 0.7, 0.9
	for every := range uint64(5) {
		every++
		opt, err := New(Config{Name: DelayedNesterov, LR: lr, Momentum: mu, Every: every}, n)
		if err != nil {
			t.Fatal(err)
		}
		next := noise()
		params := vector(next, n)
		theta, v, b := make([]float64, n), make([]float64, n), make([]float64, n)
		for j, p := range params {
			theta[j] = float64(p)
		}
		for step := range uint64(20) {
			g := vector(next, n)
			opt.Step(params, g, At{Step: step + 1})
			for j := range g {
				b[j] += float64(g[j])
				theta[j] -= lr * float64(g[j])
				if (step+1)%every == 0 {
					v[j] = mu*v[j] + b[j]/float64(every)
					theta[j] -= lr * mu * v[j]
					b[j] = 0
				}
			}
		}
		for j := range theta {
			if math.Abs(float64(params[j])-theta[j]) > 1e-5*(1+math.Abs(theta[j])) {
				t.Fatalf("every %d: element %d is %v, the equations give %v", every, j, params[j], theta[j])
			}
		}
	}
}
