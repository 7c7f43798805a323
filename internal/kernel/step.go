package kernel

// The outer steps round as PyTorch's SGD does in float32 without fused multiply-add: its p.add_(d,
// alpha=-lr) is p + (-lr)*d, which rounds to the same bits as p - lr*d.

// SGDStep descends in place: p -= lr*g.
func SGDStep(p, g []float32, lr float32) {
	same(len(p), len(g))
	i := strided(len(p), stride)
	sgdAVX2(p[:i], g, lr)
	sgdGo(p[i:], g[i:], lr)
}

func sgdGo(p, g []float32, lr float32) {
	g = g[:len(p)]
	for j := range p {
		p[j] -= float32(lr * g[j])
	}
}

// step has the fast form of a kernel do as much of x, y and z as it can, and the plain one the
// rest.
func step(x, y, z []float32, a, b float32, fast, plain func(x, y, z []float32, a, b float32)) {
	same(len(x), len(y), len(z))
	i := strided(len(x), stride)
	fast(x[:i], y, z, a, b)
	plain(x[i:], y[i:], z[i:], a, b)
}

// MomentumStep does SGD with heavy-ball momentum in place: v = mu*v + g; p -= lr*v.
func MomentumStep(p, v, g []float32, lr, mu float32) {
	step(p, v, g, lr, mu, momentumAVX2, momentumGo)
}

func momentumGo(p, v, g []float32, lr, mu float32) {
	v, g = v[:len(p)], g[:len(p)]
	for j := range p {
		w := float32(mu*v[j]) + g[j]
		v[j] = w
		p[j] -= float32(lr * w)
	}
}

// NesterovStep does SGD with Nesterov momentum in place, as PyTorch defines it: v = mu*v + g; p -=
// lr*(g + mu*v).
func NesterovStep(p, v, g []float32, lr, mu float32) {
	step(p, v, g, lr, mu, nesterovAVX2, nesterovGo)
}

func nesterovGo(p, v, g []float32, lr, mu float32) {
	v, g = v[:len(p)], g[:len(p)]
	for j := range p {
		w := float32(mu*v[j]) + g[j]
		v[j] = w
		p[j] -= float32(lr * (g[j] + float32(mu*w)))
	}
}
