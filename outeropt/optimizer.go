package outeropt

import (
	"fmt"
	"math"

	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
)

// Optimizer steps the anchor. It is not safe for concurrent use, save that steps of ranges that do
// not overlap may run at once.
type Optimizer interface {
	// Step updates params in place with grad, the reduced pseudo-gradient. Both hold equally many
	// elements, which are those from at.Offset on of the flat vector: all D with offset 0, or a
	// range of one fragment. It panics if they reach beyond D, or if at.Step is 0. Values must be
	// finite.
	Step(params, grad []float32, at At)
	// State returns the vectors of state, D elements each; their number and order depend only on
	// the configuration. They are the optimizer's own memory: what is written there is the state
	// from then on. They start as zeros.
	State() [][]float32
}

// At says which elements a step updates, the number of that step, and of how many contributions its
// gradient is the mean.
type At struct {
	Offset int    // of the first element in the flat vector
	Step   uint64 // how many outer steps these elements have had with this one, from 1
	// Contributions is how many peers contributed to the gradient. DelayedNesterov alone asks for
	// it; it must then be above 0.
	Contributions uint64
	// Open is how many contributions the steps before had since the momentum was used last: what
	// Config.OpenAfter returned for the step before, 0 for the first one.
	Open uint64
}

// New makes an optimizer for a model of that many elements (D) with its state at zero.
func New(cfg Config, elements uint64) (Optimizer, error) {
	return NewIn(cfg, elements, func() ([]float32, error) { return make([]float32, elements), nil })
}

// NewIn is New with the vectors of state where the caller wants them: vector makes one, D zeros.
func NewIn(cfg Config, elements uint64, vector func() ([]float32, error)) (Optimizer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if elements > math.MaxInt/4 {
		return nil, fmt.Errorf("outer optimizer for %d elements: more than this machine can address", elements)
	}
	var failed error
	own, registered := Registered(cfg.Name)
	zeros := func() (v []float32) {
		if failed == nil {
			v, failed = vector()
		}
		return v
	}
	var o Optimizer
	switch {
	case registered:
		o = newCustom(own, cfg, int(elements), zeros)
	case cfg.Name == Adam:
		o = &adam{cfg: cfg, m: zeros(), v: zeros()}
	case cfg.Name == DelayedNesterov:
		o = &delayed{cfg: cfg, v: zeros(), b: zeros()}
	case cfg.Momentum == 0:
		o = &sgd{elements: int(elements), lr: cfg.LR}
	case cfg.Name == SGD:
		o = &momentum{v: zeros(), lr: cfg.LR, mu: cfg.Momentum, step: kernel.MomentumStep}
	default:
		o = &momentum{v: zeros(), lr: cfg.LR, mu: cfg.Momentum, step: kernel.NesterovStep}
	}
	if failed != nil {
		return nil, failed
	}
	return o, nil
}

// sgd is plain gradient descent.
type sgd struct {
	elements int
	lr       float32
}

func (o *sgd) Step(params, grad []float32, at At) {
	at.check(len(params), o.elements)
	kernel.SGDStep(params, grad, o.lr)
}

func (o *sgd) State() [][]float32 { return nil }

// momentum is gradient descent with one vector of momentum. It starts at zero, while PyTorch's
// starts as the first gradient. The results are equal except for the sign of a zero.
type momentum struct {
	v      []float32
	lr, mu float32
	step   func(p, v, g []float32, lr, mu float32)
}

func (o *momentum) Step(params, grad []float32, at At) {
	at.check(len(params), len(o.v))
	o.step(params, o.v[at.Offset:at.Offset+len(params)], grad, o.lr, o.mu)
}

func (o *momentum) State() [][]float32 { return [][]float32{o.v} }

// delayed is Nesterov's momentum in the form for asynchronous runs (arXiv 2401.09135, Algorithm 3
// with c = 0): each of N contributions brings an N-th of a step by its gradient, and the last one
// brings the momentum, of their mean. A gradient that is the mean of c contributions stands for
// each of them.
type delayed struct {
	cfg  Config
	v, b []float32 // momentum; sum of the gradients since it was last used
}

func (o *delayed) Step(params, grad []float32, at At) {
	at.check(len(params), len(o.v))
	if at.Contributions == 0 {
		panic("outeropt: delayed Nesterov counts contributions, and a step has none")
	}
	v, b := o.v[at.Offset:at.Offset+len(params)], o.b[at.Offset:at.Offset+len(params)]
	every, open := o.cfg.Every, at.Open
	for left := at.Contributions; left > 0; {
		n := min(left, every-open)
		rate := float32(o.cfg.LR * (float32(n) / float32(every)))
		if open += n; open < every {
			kernel.DelayedStep(params, b, grad, float32(n), rate)
		} else {
			kernel.DelayedMomentumStep(params, v, b, grad, float32(n), rate, o.cfg.LR, o.cfg.Momentum, 1/float32(every))
			open = 0
		}
		left -= n
	}
}

func (o *delayed) State() [][]float32 { return [][]float32{o.v, o.b} }

// adam is Adam (arXiv 1412.6980).
type adam struct {
	cfg  Config
	m, v []float32 // running means of the gradient and of its square
}

func (o *adam) Step(params, grad []float32, at At) {
	at.check(len(params), len(o.v))
	end := at.Offset + len(params)
	kernel.AdamStep(params, o.m[at.Offset:end], o.v[at.Offset:end], grad,
		kernel.AdamAt(o.cfg.LR, o.cfg.Momentum, o.cfg.Beta2, Eps, at.Step))
}

func (o *adam) State() [][]float32 { return [][]float32{o.m, o.v} }

// check panics unless a step of n elements fits the model.
func (at At) check(n, elements int) {
	if at.Offset < 0 || at.Offset > elements || n > elements-at.Offset {
		panic(fmt.Sprintf("outeropt: %d elements from %d on do not lie in a model of %d", n, at.Offset, elements))
	}
	if at.Step == 0 {
		panic("outeropt: steps count from 1")
	}
}

// OpenAfter is At.Open of the step after this one: how many contributions the optimizer has taken
// since its momentum was used last. It is 0 but for DelayedNesterov.
func (c Config) OpenAfter(at At) uint64 {
	if c.Name != DelayedNesterov {
		return 0
	}
	return (at.Open + at.Contributions) % c.Every
}

// Step lets o step params on all cores. The first element of params is element at.Offset of the
// whole vector. The optimizers are elementwise, so the result has the same bits as one call of
// o.Step.
func Step(o Optimizer, params, grad []float32, at At) {
	kernel.Ranges(len(params), func(begin, end int) {
		part := at
		part.Offset += begin
		o.Step(params[begin:end], grad[begin:end], part)
	})
}
