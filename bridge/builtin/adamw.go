package builtin

import (
	"math"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// adamW is the inner optimizer: Adam with decoupled weight decay (Loshchilov and Hutter, arXiv
// 1711.05101), after the whole gradient was clipped to a norm. With a muon it leaves the matrices
// to that. Its state belongs to this peer alone and outlives the rounds.
type adamW struct {
	cfg    Config
	muon   *muon     // nil: AdamW for all
	first  []float32 // mean of gradients; of muon's matrices the momentum
	second []float32 // mean of squared gradients
	decays []span    // where weight decay applies
	parts  []span    // that are not muon's
	steps  int       // done so far
}

// span is a half-open range of the flat vector.
type span struct{ begin, end int }

func newAdamW(cfg Config, layout trainer.Layout, m *muon) *adamW {
	o := &adamW{
		cfg: cfg, muon: m, first: make([]float32, layout.Elements()), second: make([]float32, layout.Elements()),
	}
	at := 0
	for _, t := range layout {
		s := span{at, at + int(t.Elements())}
		at = s.end
		if m != nil && slices.ContainsFunc(m.matrices, func(of shaped) bool { return of.span == s }) {
			continue
		}
		o.parts = append(o.parts, s)
		if len(t.Shape) > 1 { // gains and biases are left alone
			o.decays = append(o.decays, s)
		}
	}
	return o
}

// step updates values by the gradient, which it clips in place. It returns the norm that the
// gradient had.
func (o *adamW) step(values, grad []float32) (norm float64) {
	o.steps++
	norm = clipNorm(grad, o.cfg.Clip)
	rate := o.rate()
	o.decay(values, rate)

	b1, b2 := float32(o.cfg.Beta1), float32(o.cfg.Beta2)
	// With both moments' bias corrections folded in: rate/(1-b1^t) · m / (sqrt(v)/sqrt(1-b2^t) +
	// eps).
	size := float32(rate / (1 - math.Pow(o.cfg.Beta1, float64(o.steps))))
	root := float32(1 / math.Sqrt(1-math.Pow(o.cfg.Beta2, float64(o.steps))))
	eps := float32(o.cfg.Epsilon)
	for _, part := range o.parts {
		for i := part.begin; i < part.end; i++ {
			g := grad[i]
			m := b1*o.first[i] + (1-b1)*g
			v := b2*o.second[i] + (1-b2)*g*g
			o.first[i], o.second[i] = m, v
			values[i] -= size * m / (float32(math.Sqrt(float64(v)))*root + eps)
		}
	}
	if o.muon != nil {
		o.muon.step(values, grad, o.first, float32(rate), float32(max(0, o.cfg.WeightDecay)))
	}
	return norm
}

// rate rises linearly over the warm-up, counted in this peer's own steps.
func (o *adamW) rate() float64 {
	if o.steps < o.cfg.WarmUp {
		return o.cfg.LearningRate * float64(o.steps) / float64(o.cfg.WarmUp)
	}
	return o.cfg.LearningRate
}

func (o *adamW) decay(values []float32, rate float64) {
	if o.cfg.WeightDecay <= 0 {
		return
	}
	keep := float32(1 - rate*o.cfg.WeightDecay)
	for _, s := range o.decays {
		for i := s.begin; i < s.end; i++ {
			values[i] *= keep
		}
	}
}

// clipNorm scales v down to at most the given norm; not at all when that is negative. It returns
// the norm before.
func clipNorm(v []float32, limit float64) (norm float64) {
	sum := 0.0
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	if norm = math.Sqrt(sum); limit > 0 && norm > limit {
		gemm.Sscal(len(v), float32(limit/norm), v, 1)
	}
	return norm
}
