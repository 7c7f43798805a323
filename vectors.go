package p2pdiloco

import (
	"sync/atomic"

	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
	"github.com/p2pdiloco/p2pdiloco/internal/parallel"
	"github.com/p2pdiloco/p2pdiloco/outeropt"
)

// What is done to whole vectors takes all cores. Each element is computed by itself: how the work is divided shows nowhere.

func subtract(dst, a, b []float32) {
	parallel.Ranges(len(dst), func(begin, end int) { kernel.Sub(dst[begin:end], a[begin:end], b[begin:end]) })
}

func add(dst, a, b []float32) {
	parallel.Ranges(len(dst), func(begin, end int) { kernel.Add(dst[begin:end], a[begin:end], b[begin:end]) })
}

func mix(dst, a, b []float32, alpha float32) {
	parallel.Ranges(len(dst), func(begin, end int) { kernel.Mix(dst[begin:end], a[begin:end], b[begin:end], alpha) })
}

// bounded is kernel.Bounded.
func bounded(x []float32) int {
	first := atomic.Int64{} // of what is not, counted from the end
	parallel.Ranges(len(x), func(begin, end int) {
		at := kernel.Bounded(x[begin:end])
		if at < 0 {
			return
		}
		fromEnd := int64(len(x) - begin - at)
		for old := first.Load(); fromEnd > old && !first.CompareAndSwap(old, fromEnd); old = first.Load() {
		}
	})
	if fromEnd := first.Load(); fromEnd > 0 {
		return len(x) - int(fromEnd)
	}
	return -1
}

// outerStep steps params, which are those from at.Offset on.
func outerStep(outer outeropt.Optimizer, params, grad []float32, at outeropt.At) {
	parallel.Ranges(len(params), func(begin, end int) {
		part := at
		part.Offset += begin
		outer.Step(params[begin:end], grad[begin:end], part)
	})
}
