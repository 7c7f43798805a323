package vector

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// Block is the number of elements of a range: 256 KiB of float32, so much that starting a range
// costs little in comparison.
const Block = 1 << 16

// Ranges calls f for ranges that cover the elements from 0 to n, each once, from as many goroutines
// as there are cores, and returns when all calls have. Ranges begin at multiples of Block.
func Ranges(n int, f func(begin, end int)) {
	blocks := (n + Block - 1) / Block
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
			f(b*Block, min(n, (b+1)*Block))
		}
	}
	var wg sync.WaitGroup
	for range workers - 1 {
		wg.Go(work)
	}
	work()
	wg.Wait()
}
