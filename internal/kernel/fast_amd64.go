//go:build !purego

package kernel

import "golang.org/x/sys/cpu"

func hasFast() bool { return cpu.X86.HasAVX2 }

// The following functions are in the .s files. Each takes all of its first slice of float32 or
// sizes, whose length is a multiple of the stride. The other slices are at least as long, those of
// bytes as those elements take, and what is written has room for what they give. None keeps a
// slice.

//go:noescape
func subAVX2(dst, a, b []float32)

//go:noescape
func addAVX2(dst, a, b []float32)

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

//go:noescape
func absMaxAVX2(x []float32) uint32

//go:noescape
func toInt8AVX2(q []byte, x []float32, factor float32)

//go:noescape
func fromInt8AVX2(x []float32, q []byte, scale float32) uint32

//go:noescape
func toInt4AVX2(q []byte, x []float32, factor float32)

//go:noescape
func fromInt4AVX2(x []float32, q []byte, scale float32) uint32

// absSumAVX2 adds the magnitude of element j to lane j%8.
//
//go:noescape
func absSumAVX2(lanes *[8]float64, x []float32)

//go:noescape
func packSignsAVX2(bits []byte, x []float32)

//go:noescape
func unpackSignsAVX2(x []float32, bits []byte, scale float32)

//go:noescape
func encodeBF16AVX2(dst []byte, src []float32)

//go:noescape
func decodeBF16AVX2(dst []float32, src []byte)

// maximaAVX2 takes strips of eight times each elements.
//
//go:noescape
func maximaAVX2(sizes []uint32, x []float32, each int) uint32

//go:noescape
func reachingAVX2(sizes []uint32, bound uint32) int

// collectAVX2 writes the positions of elements that reach bound, and up to four more of anything.
//
//go:noescape
func collectAVX2(at []uint16, x []float32, bound uint32) int
