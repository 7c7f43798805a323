package kernel

import (
	"os"
	"sync/atomic"
)

// A kernel's assembly, xyzAVX2, takes as much of the front of its slices as it can in whole
// strides, and the plain loop takes the rest. So the plain loop stands alone where there is no
// assembly, and on amd64 it has the tail.

// Strides of the assembly, in elements. They are in the .s files, too.
const (
	stride         = 16
	reduceStride   = 32
	quantStride    = 32
	reachingStride = 16
	collectStride  = 64
)

// strided returns how many of n elements the assembly takes: whole strides, or none.
func strided(n, stride int) int {
	if !fast.Load() {
		return 0
	}
	return n &^ (stride - 1)
}

// Environment is the name of an environment variable. If its value is "go" when a program starts,
// the kernels are the plain loops.
const Environment = "P2PDILOCO_KERNELS"

// fast says whether the fast paths are in use.
var fast atomic.Bool

func init() { fast.Store(hasFast() && !raced && os.Getenv(Environment) != "go") }

// SetFast turns the fast paths on, where this build and this processor have them, or off, for
// everybody; it returns what was before. The bits of the results are the same: it is for tests and
// for benchmarks.
func SetFast(on bool) (before bool) { return fast.Swap(on && hasFast()) }
