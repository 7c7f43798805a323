// Package vector does arithmetic on whole vectors with all cores. Each element is computed by
// itself, so the result has the same bits however the work is divided (Ranges).
package vector

import (
	"sync/atomic"

	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
)

// Sub sets dst = a - b, and returns the index of the first element of dst that kernel.Bounded
// refuses, or -1.
func Sub(dst, a, b []float32) (bad int) {
	var first atomic.Int64
	first.Store(int64(len(dst)))
	Ranges(len(dst), func(begin, end int) {
		kernel.Sub(dst[begin:end], a[begin:end], b[begin:end])
		if at := int64(kernel.Bounded(dst[begin:end])); at >= 0 {
			at += int64(begin)
			for old := first.Load(); at < old && !first.CompareAndSwap(old, at); old = first.Load() {
			}
		}
	})
	if at := int(first.Load()); at < len(dst) {
		return at
	}
	return -1
}

// Add sets dst = a + b.
func Add(dst, a, b []float32) {
	Ranges(len(dst), func(begin, end int) { kernel.Add(dst[begin:end], a[begin:end], b[begin:end]) })
}

// Mix sets dst = alpha a + (1 - alpha) b.
func Mix(dst, a, b []float32, alpha float32) {
	Ranges(len(dst), func(begin, end int) { kernel.Mix(dst[begin:end], a[begin:end], b[begin:end], alpha) })
}
