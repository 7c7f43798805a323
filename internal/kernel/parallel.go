package kernel

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// RangeBlock is the number of elements of a range: 256 KiB of float32, so much that starting a
// range costs little in comparison.
const RangeBlock = 1 << 16

// Ranges calls f for ranges that cover the elements from 0 to n, each once, from as many goroutines
// as there are cores, and returns when all calls have. Ranges begin at multiples of Block.
func Ranges(n int, f func(begin, end int)) {
	blocks := (n + RangeBlock - 1) / RangeBlock
	workers := min(runtime.GOMAXPROCS(0), blocks)
	if workers <= 1 {
		if n > 0 {
			f(0, n)
		}
		return
	}
	var next atomic.Int64
	work := func() {
		for b := int(next.Add(1)) - 1; b < blocks; b = int(next.Add(1)) - 1 {
			f(b*RangeBlock, min(n, (b+1)*RangeBlock))
		}
	}
	var wg sync.WaitGroup
	for range workers - 1 {
		wg.Go(work)
	}
	work()
	wg.Wait()
}

// ParallelSub sets dst = a - b, and returns the index of the first element of dst that
// kernel.Bounded refuses, or -1.
func ParallelSub(dst, a, b []float32) (bad int) {
	var first atomic.Int64
	first.Store(int64(len(dst)))
	Ranges(len(dst), func(begin, end int) {
		Sub(dst[begin:end], a[begin:end], b[begin:end])
		if at := int64(Bounded(dst[begin:end])); at >= 0 {
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

// ParallelMix sets dst = alpha a + (1 - alpha) b.
func ParallelMix(dst, a, b []float32, alpha float32) {
	Ranges(len(dst), func(begin, end int) { Mix(dst[begin:end], a[begin:end], b[begin:end], alpha) })
}
