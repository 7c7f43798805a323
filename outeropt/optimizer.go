package outeropt

import (
	"fmt"
	"math"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
)

// Optimizer steps the anchor. It is not safe for concurrent use, save that steps of ranges that do
// not overlap may run at once.
type Optimizer struct {
	rule     Custom
	cfg      Config
	elements int
	state    [][]float32
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
func New(cfg Config, elements uint64) (*Optimizer, error) {
	return NewIn(cfg, elements, func() ([]float32, error) { return make([]float32, elements), nil })
}

// NewIn is New with the vectors of state where the caller wants them: vector makes one, D zeros.
func NewIn(cfg Config, elements uint64, vector func() ([]float32, error)) (*Optimizer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if elements > math.MaxInt/4 {
		return nil, fmt.Errorf("outer optimizer for %d elements: more than this machine can address", elements)
	}
	o := &Optimizer{rule: cfg.rule(), cfg: cfg, elements: int(elements)}
	for range o.rule.Vectors {
		v, err := vector()
		if err != nil {
			return nil, err
		}
		o.state = append(o.state, v)
	}
	return o, nil
}

// rule is the arithmetic of the optimizer, and how many vectors of state it has.
func (c Config) rule() Custom {
	switch {
	case c.Name == Adam:
		return Custom{Vectors: 2, Step: adam}
	case c.Name == DelayedNesterov:
		return Custom{Vectors: 2, Step: delayed}
	case slices.Contains(builtin, c.Name) && c.Momentum == 0:
		return Custom{Step: sgd}
	case c.Name == SGD:
		return Custom{Vectors: 1, Step: momentum}
	case c.Name == Nesterov:
		return Custom{Vectors: 1, Step: nesterov}
	}
	own, _ := Registered(c.Name)
	return own
}

// Step updates params in place with grad, the reduced pseudo-gradient. Both hold equally many
// elements, which are those from at.Offset on of the flat vector: all D with offset 0, or a range
// of one fragment. It panics if they reach beyond D, or if at.Step is 0. Values must be finite.
func (o *Optimizer) Step(params, grad []float32, at At) {
	at.check(len(params), o.elements)
	part := make([][]float32, len(o.state))
	for i, v := range o.state {
		part[i] = v[at.Offset : at.Offset+len(params)]
	}
	o.rule.Step(params, grad, part, o.cfg, at)
}

// State returns the vectors of state, D elements each; their number and order depend only on the
// configuration. They are the optimizer's own memory: what is written there is the state from then
// on. They start as zeros.
func (o *Optimizer) State() [][]float32 { return o.state }

// sgd is plain gradient descent.
func sgd(params, grad []float32, _ [][]float32, cfg Config, _ At) {
	kernel.SGDStep(params, grad, cfg.LR)
}

// momentum is gradient descent with one vector of momentum. It starts at zero, while PyTorch's
// starts as the first gradient. The results are equal except for the sign of a zero.
func momentum(params, grad []float32, state [][]float32, cfg Config, _ At) {
	kernel.MomentumStep(params, state[0], grad, cfg.LR, cfg.Momentum)
}

// nesterov is the same with Nesterov's momentum.
func nesterov(params, grad []float32, state [][]float32, cfg Config, _ At) {
	kernel.NesterovStep(params, state[0], grad, cfg.LR, cfg.Momentum)
}

// delayed is Nesterov's momentum in the form for asynchronous runs (arXiv 2401.09135, Algorithm 3
// with c = 0): each of N contributions brings an N-th of a step by its gradient, and the last one
// brings the momentum, of their mean. A gradient that is the mean of c contributions stands for
// each of them. Its state is the momentum, and the sum of the gradients since that was last used.
func delayed(params, grad []float32, state [][]float32, cfg Config, at At) {
	if at.Contributions == 0 {
		panic("outeropt: delayed Nesterov counts contributions, and a step has none")
	}
	v, b := state[0], state[1]
	every, open := cfg.Every, at.Open
	for left := at.Contributions; left > 0; {
		n := min(left, every-open)
		rate := float32(cfg.LR * (float32(n) / float32(every)))
		if open += n; open < every {
			kernel.DelayedStep(params, b, grad, float32(n), rate)
		} else {
			kernel.DelayedMomentumStep(params, v, b, grad, float32(n), rate, cfg.LR, cfg.Momentum, 1/float32(every))
			open = 0
		}
		left -= n
	}
}

// adam is Adam (arXiv 1412.6980). Its state is the running means of the gradient and of its square.
func adam(params, grad []float32, state [][]float32, cfg Config, at At) {
	kernel.AdamStep(params, state[0], state[1], grad,
		kernel.AdamAt(cfg.LR, cfg.Momentum, cfg.Beta2, Eps, at.Step))
}

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
func Step(o *Optimizer, params, grad []float32, at At) {
	kernel.Ranges(len(params), func(begin, end int) {
		part := at
		part.Offset += begin
		o.Step(params[begin:end], grad[begin:end], part)
	})
}
