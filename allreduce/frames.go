package allreduce

import (
	"cmp"
	"runtime"
	"sync"
)

// eachFrame calls do for all frames, on all cores, each core's in order.
func eachFrame(frames int, do func(f int) error) error {
	workers := min(runtime.GOMAXPROCS(0), frames)
	errs := make([]error, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for f := frames * w / workers; f < frames*(w+1)/workers && errs[w] == nil; f++ {
				errs[w] = do(f)
			}
		})
	}
	wg.Wait()
	return cmp.Or(errs...)
}
