package kernel

// DelayedStep takes n contributions of delayed Nesterov between two uses of its momentum, in place:
// b += n*g; p -= rate*g. The rate is the learning rate times n/N.
func DelayedStep(p, b, g []float32, n, rate float32) {
	step(p, b, g, n, rate, delayedAVX2, delayedGo)
}

func delayedGo(p, b, g []float32, n, rate float32) {
	b, g = b[:len(p)], g[:len(p)]
	for j := range p {
		b[j] += float32(n * g[j])
		p[j] -= float32(rate * g[j])
	}
}

// DelayedMomentumStep takes n contributions of delayed Nesterov of which the last one brings the
// momentum, in place: v = mu*v + share*(b + n*g); p -= rate*g + lr*(mu*v); b = 0. The share is 1/N.
func DelayedMomentumStep(p, v, b, g []float32, n, rate, lr, mu, share float32) {
	same(len(p), len(v), len(b), len(g))
	i := strided(len(p), stride)
	delayedMomentumAVX2(p[:i], v, b, g, n, rate, lr, mu, share)
	delayedMomentumGo(p[i:], v[i:], b[i:], g[i:], n, rate, lr, mu, share)
}

func delayedMomentumGo(p, v, b, g []float32, n, rate, lr, mu, share float32) {
	v, b, g = v[:len(p)], b[:len(p)], g[:len(p)]
	for j := range p {
		x := g[j]
		w := float32(mu*v[j]) + float32(share*(b[j]+float32(n*x)))
		v[j] = w
		p[j] -= float32(rate*x) + float32(lr*float32(mu*w))
		b[j] = 0
	}
}
