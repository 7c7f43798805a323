package outeropt

import "github.com/p2pdiloco/p2pdiloco/internal/kernel"

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
