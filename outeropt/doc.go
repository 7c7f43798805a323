// Package outeropt holds the outer optimizers. With one of them every peer steps the anchor by the
// reduced pseudo-gradient of a slot. All are elementwise and deterministic, so that equal bits in
// give equal bits out on every peer; package kernel does the arithmetic.
//
// A caller makes one Optimizer for a run and steps it once a slot:
//
//	opt, err := outeropt.New(outeropt.Config{Name: outeropt.Nesterov, LR: 0.7, Momentum: 0.9}, layout.Elements())
//	...
//	opt.Step(anchor, outcome, outeropt.At{Step: slot, Contributions: peers})
//
// An optimizer's state is part of the state root. State lends its vectors out: to hash them, to
// write a checkpoint, and, for a joiner, to fill them in before the first step.
//
// Pseudo-gradients are anchor - local, so a step goes downhill; the equations are those of
// PyTorch's SGD and Adam, bit for bit (testdata/pytorch.py). DiLoCo (arXiv 2311.08105) uses SGD
// with Nesterov momentum; delayed Nesterov is its form for asynchronous runs (arXiv 2401.09135).
package outeropt
