// Package vector does arithmetic on whole vectors with all cores. Each element is computed by
// itself, so the result has the same bits however the work is divided.
package vector

import (
	"sync/atomic"

	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
	"github.com/p2pdiloco/p2pdiloco/internal/parallel"
)

// Sub sets dst = a - b.
func Sub(dst, a, b []float32) {
	parallel.Ranges(len(dst), func(begin, end int) { kernel.Sub(dst[begin:end], a[begin:end], b[begin:end]) })
}

// Add sets dst = a + b.
func Add(dst, a, b []float32) {
	parallel.Ranges(len(dst), func(begin, end int) { kernel.Add(dst[begin:end], a[begin:end], b[begin:end]) })
}

// Mix sets dst = alpha a + (1 - alpha) b.
func Mix(dst, a, b []float32, alpha float32) {
	parallel.Ranges(len(dst), func(begin, end int) { kernel.Mix(dst[begin:end], a[begin:end], b[begin:end], alpha) })
}

// Bounded returns the index of the first element that kernel.Bounded refuses, or -1.
func Bounded(x []float32) int {
	fromEnd := atomic.Int64{} // the distance of the first such element from the end of x; 0: none
	parallel.Ranges(len(x), func(begin, end int) {
		at := kernel.Bounded(x[begin:end])
		if at < 0 {
			return
		}
		distance := int64(len(x) - begin - at)
		for old := fromEnd.Load(); distance > old && !fromEnd.CompareAndSwap(old, distance); old = fromEnd.Load() {
		}
	})
	if distance := fromEnd.Load(); distance > 0 {
		return len(x) - int(distance)
	}
	return -1
}
