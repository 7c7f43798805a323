// Package kernel holds the arithmetic that must come out the same on every peer, and nothing else.
// Code that needs a floating-point result in a root, a record or the model calls a kernel and never
// writes the loop itself.
//
// Every result is a function of its arguments alone, bit for bit, on every architecture:
//   - The order of every sum is fixed and written down at the kernel.
//   - No multiply-add may be fused. The Go compiler fuses x*y+z on arm64 and others unless the
//     product is converted, so each product that is added to anything is written float32(x*y) or
//     float64(x*y).
//   - Sums start from +0, so the sign of a zero among the inputs never reaches an outcome.
//
// Each kernel is a plain loop, xyzGo, which says what the result is. On amd64 with AVX2 assembly
// takes its place (xyzAVX2; the build tag purego leaves it out, P2PDILOCO_KERNELS=go switches it
// off) and gives the same bits for all inputs: infinities, subnormals and zeros of either sign as
// well. Where the plain loop gives a NaN so does the assembly, but which of the many is not fixed,
// as it is not between architectures. testdata/golden.txt holds a digest of each kernel's outputs;
// a change of any of them is a change of Version.
//
// Kernels take slices of equal length and panic when lengths differ: lengths are checked where
// bytes are parsed, so here a difference is a broken invariant. A destination may be the very same
// slice as an input; partial overlap is not allowed. Kernels hold no state and may run concurrently
// on slices that do not overlap. Inputs are taken to be finite: callers check what comes from
// outside with Bounded.
package kernel

// Version of the arithmetic. It is part of the run spec: peers with different kernels must not
// share a run.
const Version = 1

func same(n int, lengths ...int) {
	for _, l := range lengths {
		if l != n {
			panic("kernel: slices of different lengths")
		}
	}
}
