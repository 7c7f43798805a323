package kernel

// DelayedStep does a slot of delayed Nesterov between two of its momentum steps, in place: b += g;
// p -= lr*g.
func DelayedStep(p, b, g []float32, lr float32) {
	same(len(p), len(b), len(g))
	i := delayedFast(p, b, g, lr)
	delayedGo(p[i:], b[i:], g[i:], lr)
}

func delayedGo(p, b, g []float32, lr float32) {
	b, g = b[:len(p)], g[:len(p)]
	for j := range p {
		b[j] += g[j]
		p[j] -= float32(lr * g[j])
	}
}

// DelayedMomentumStep does a slot of delayed Nesterov with its momentum step, in place: v = mu*v +
// share*(b + g); p -= lr*(g + mu*v); b = 0. With b at zero and a share of 1 it is NesterovStep.
func DelayedMomentumStep(p, v, b, g []float32, lr, mu, share float32) {
	same(len(p), len(v), len(b), len(g))
	i := delayedMomentumFast(p, v, b, g, lr, mu, share)
	delayedMomentumGo(p[i:], v[i:], b[i:], g[i:], lr, mu, share)
}

func delayedMomentumGo(p, v, b, g []float32, lr, mu, share float32) {
	v, b, g = v[:len(p)], b[:len(p)], g[:len(p)]
	for j := range p {
		w := float32(mu*v[j]) + float32(share*(b[j]+g[j]))
		v[j] = w
		p[j] -= float32(lr * (g[j] + float32(mu*w)))
		b[j] = 0
	}
}
