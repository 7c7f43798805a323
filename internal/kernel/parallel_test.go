package kernel

import (
	"runtime"
	"sync/atomic"
	"testing"
)

func TestRangesCoverEachElementOnce(t *testing.T) {
	for _, procs := range []int{1, 2, 5} {
		before := runtime.GOMAXPROCS(procs)
		for _, n := range []int{0, 1, RangeBlock - 1, RangeBlock, RangeBlock + 1, 7*RangeBlock + 3} {
			seen := make([]atomic.Int32, n)
			Ranges(n, func(begin, end int) {
				if begin%RangeBlock != 0 || begin >= end {
					t.Errorf("a range from %d to %d", begin, end)
				}
				for i := begin; i < end; i++ {
					seen[i].Add(1)
				}
			})
			for i := range seen {
				if c := seen[i].Load(); c != 1 {
					t.Fatalf("%d cores, %d elements: element %d was in %d ranges", procs, n, i, c)
				}
			}
		}
		runtime.GOMAXPROCS(before)
	}
}

// Another core takes a range while the first is at work on one.
func TestRangesRunBesideEachOther(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	var begun atomic.Int32
	met := make(chan struct{})
	Ranges(2*RangeBlock, func(int, int) {
		if begun.Add(1) == 2 {
			close(met)
		}
		<-met
	})
}
