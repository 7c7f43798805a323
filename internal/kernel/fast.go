package kernel

import (
	"os"
	"sync/atomic"
)

// A kernel's fast path takes as much of the front of its slices as it can in whole strides, and
// says how many elements that was; the plain loop, xyzGo, takes the rest. So the plain loop stands
// alone where there is no fast path, and on amd64 it has the tail.

// Environment is the name of an environment variable. If its value is "go" when a program starts,
// the kernels are the plain loops.
const Environment = "P2PDILOCO_KERNELS"

// fast says whether the fast paths are in use.
var fast atomic.Bool

func init() { fast.Store(hasFast() && !raced && os.Getenv(Environment) != "go") }

// Fast says whether the kernels use this processor's vector instructions.
func Fast() bool { return fast.Load() }

// SetFast turns the fast paths on, where this build and this processor have them, or off, for
// everybody; it returns what was before. The bits of the results are the same: it is for tests and
// for benchmarks.
func SetFast(on bool) (before bool) { return fast.Swap(on && hasFast()) }
