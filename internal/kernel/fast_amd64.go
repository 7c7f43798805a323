//go:build !purego

package kernel

import "golang.org/x/sys/cpu"

// Strides of the fast paths, in elements. They are in the assembly, too.
const (
	stride       = 16
	reduceStride = 32
)

func hasFast() bool { return cpu.X86.HasAVX2 }

// done returns how many of n elements a fast path with this stride takes.
func done(n, stride int) int {
	if !fast.Load() {
		return 0
	}
	return n &^ (stride - 1)
}

func subFast(dst, a, b []float32) int {
	n := done(len(dst), stride)
	subAVX2(dst[:n], a, b)
	return n
}

func addFast(dst, a, b []float32) int {
	n := done(len(dst), stride)
	addAVX2(dst[:n], a, b)
	return n
}

func mulFast(dst, a, b []float32) int {
	n := done(len(dst), stride)
	mulAVX2(dst[:n], a, b)
	return n
}

func mixFast(dst, a, b []float32, alpha, rest float32) int {
	n := done(len(dst), stride)
	mixAVX2(dst[:n], a, b, alpha, rest)
	return n
}

// boundedFast returns how many elements at the front of x are known to be bounded.
func boundedFast(x []float32) int {
	return boundedAVX2(x[:done(len(x), stride)])
}

func normSqFast(lanes *[8]float64, x []float32) int {
	n := done(len(x), stride)
	normSqAVX2(lanes, x[:n])
	return n
}

func dotFast(lanes *[8]float64, x, y []float32) int {
	n := done(len(x), stride)
	dotAVX2(lanes, x[:n], y)
	return n
}

func sgdFast(p, g []float32, lr float32) int {
	n := done(len(p), stride)
	sgdAVX2(p[:n], g, lr)
	return n
}

func momentumFast(p, v, g []float32, lr, mu float32) int {
	n := done(len(p), stride)
	momentumAVX2(p[:n], v, g, lr, mu)
	return n
}

func nesterovFast(p, v, g []float32, lr, mu float32) int {
	n := done(len(p), stride)
	nesterovAVX2(p[:n], v, g, lr, mu)
	return n
}

func delayedFast(p, b, g []float32, count, rate float32) int {
	n := done(len(p), stride)
	delayedAVX2(p[:n], b, g, count, rate)
	return n
}

func delayedMomentumFast(p, v, b, g []float32, count, rate, lr, mu, share float32) int {
	n := done(len(p), stride)
	delayedMomentumAVX2(p[:n], v, b, g, count, rate, lr, mu, share)
	return n
}

func adamFast(p, m, v, g []float32, a *Adam) int {
	n := done(len(p), stride)
	adamAVX2(p[:n], m, v, g, a)
	return n
}

// meanFast divides the sum by kept.
func meanFast(dst []float32, cols [][]float32, scale []float32, kept float32) int {
	n := done(len(dst), reduceStride)
	meanAVX2(dst[:n], cols, scale, kept)
	return n
}

func trimFast(dst []float32, cols [][]float32, scale []float32, k int) int {
	kept := float32(len(cols) - 2*k)
	switch k {
	case 0:
		return meanFast(dst, cols, scale, kept)
	case 1:
		n := done(len(dst), reduceStride)
		trim1AVX2(dst[:n], cols, scale, kept)
		return n
	case 2:
		n := done(len(dst), stride)
		trim2AVX2(dst[:n], cols, scale, kept)
		return n
	case 3:
		n := done(len(dst), stride)
		trim3AVX2(dst[:n], cols, scale, kept)
		return n
	}
	n := done(len(dst), stride)
	if n > 0 {
		trimAVX2(dst[:n], cols, scale, kept, make([]float32, 2*k*stride))
	}
	return n
}

// The following functions are in the .s files. Each takes all of its first slice, which has a
// length that is a multiple of the stride. The other slices are at least as long. None keeps a
// slice.

//go:noescape
func subAVX2(dst, a, b []float32)

//go:noescape
func addAVX2(dst, a, b []float32)

//go:noescape
func mulAVX2(dst, a, b []float32)

//go:noescape
func mixAVX2(dst, a, b []float32, alpha, rest float32)

// boundedAVX2 returns where the first stride begins in which an element is not bounded; len(x) when
// there is none.
//
//go:noescape
func boundedAVX2(x []float32) int

// normSqAVX2 adds the square of element j to lane j%8.
//
//go:noescape
func normSqAVX2(lanes *[8]float64, x []float32)

// dotAVX2 adds the product of elements j to lane j%8; y is as long as x.
//
//go:noescape
func dotAVX2(lanes *[8]float64, x, y []float32)

//go:noescape
func sgdAVX2(p, g []float32, lr float32)

//go:noescape
func momentumAVX2(p, v, g []float32, lr, mu float32)

//go:noescape
func nesterovAVX2(p, v, g []float32, lr, mu float32)

//go:noescape
func delayedAVX2(p, b, g []float32, count, rate float32)

//go:noescape
func delayedMomentumAVX2(p, v, b, g []float32, count, rate, lr, mu, share float32)

//go:noescape
func adamAVX2(p, m, v, g []float32, a *Adam)

//go:noescape
func meanAVX2(dst []float32, cols [][]float32, scale []float32, kept float32)

//go:noescape
func trim1AVX2(dst []float32, cols [][]float32, scale []float32, kept float32)

//go:noescape
func trim2AVX2(dst []float32, cols [][]float32, scale []float32, kept float32)

//go:noescape
func trim3AVX2(dst []float32, cols [][]float32, scale []float32, kept float32)

// trimAVX2 is for any k of at least 1: lanes has room for 2k strides.
//
//go:noescape
func trimAVX2(dst []float32, cols [][]float32, scale []float32, kept float32, lanes []float32)
