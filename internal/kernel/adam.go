package kernel

import "math"

// Adam holds the scalars of one step of Adam. AdamAt makes them.
type Adam struct {
	Beta1, Beta2 float32 // how much of the means stays
	Rest1, Rest2 float32 // 1 - Beta1, 1 - Beta2
	Size         float32 // lr / (1 - Beta1^step)
	Root         float32 // sqrt(1 - Beta2^step)
	Eps          float32
}

// AdamAt gives the scalars of the step-th step, from 1. The bias corrections are computed in
// float64 and rounded once; the powers by squaring and multiplying, because math.Pow may differ
// between architectures.
func AdamAt(lr, beta1, beta2, eps float32, step uint64) Adam {
	b1, b2 := float64(beta1), float64(beta2)
	return Adam{
		Beta1: beta1, Beta2: beta2, Rest1: float32(1 - b1), Rest2: float32(1 - b2), Eps: eps,
		Size: float32(float64(lr) / (1 - power(b1, step))),
		Root: float32(math.Sqrt(1 - power(b2, step))),
	}
}

// power returns x^n: for each bit of n from the lowest, the product takes the square that the bit
// stands for.
func power(x float64, n uint64) float64 {
	p := 1.0
	for ; n > 0; n >>= 1 {
		if n&1 != 0 {
			p = float64(p * x)
		}
		x = float64(x * x)
	}
	return p
}

// AdamStep does one step of Adam in place, rounding as PyTorch's does in float32 without fused
// multiply-add: m = beta1*m + rest1*g; v = beta2*v + (rest2*g)*g; p -= (size*m) / (sqrt(v)/root +
// eps). Where g*g is too large for float32, v is the largest float32: it can shrink again, and
// sqrt(v) stays finite.
func AdamStep(p, m, v, g []float32, a Adam) {
	same(len(p), len(m), len(v), len(g))
	i := strided(len(p), stride)
	adamAVX2(p[:i], m, v, g, &a)
	adamGo(p[i:], m[i:], v[i:], g[i:], &a)
}

func adamGo(p, m, v, g []float32, a *Adam) {
	m, v, g = m[:len(p)], v[:len(p)], g[:len(p)]
	for j := range p {
		first := float32(a.Beta1*m[j]) + float32(a.Rest1*g[j])
		second := float32(a.Beta2*v[j]) + float32(float32(a.Rest2*g[j])*g[j])
		if second > math.MaxFloat32 {
			second = math.MaxFloat32
		}
		m[j], v[j] = first, second
		p[j] -= float32(a.Size*first) / (float32(float32(math.Sqrt(float64(second)))/a.Root) + a.Eps)
	}
}
