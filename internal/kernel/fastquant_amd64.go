//go:build !purego

package kernel

const quantStride = 32

func absMaxFast(x []float32) (n int, most uint32) {
	n = done(len(x), quantStride)
	return n, absMaxAVX2(x[:n])
}

func toInt8Fast(q []byte, x []float32, factor float32) int {
	n := done(len(x), quantStride)
	toInt8AVX2(q, x[:n], factor)
	return n
}

// fromInt8Fast returns the largest magnitude of the integers, too.
func fromInt8Fast(x []float32, q []byte, scale float32) (n int, most int32) {
	n = done(len(x), quantStride)
	return n, int32(fromInt8AVX2(x[:n], q, scale))
}

func toInt4Fast(q []byte, x []float32, factor float32) int {
	n := done(len(x), quantStride)
	toInt4AVX2(q, x[:n], factor)
	return n
}

// fromInt4Fast returns the largest magnitude of the integers, too.
func fromInt4Fast(x []float32, q []byte, scale float32) (n int, most int32) {
	n = done(len(x), quantStride)
	return n, int32(fromInt4AVX2(x[:n], q, scale))
}

func absSumFast(lanes *[8]float64, x []float32) int {
	n := done(len(x), quantStride)
	absSumAVX2(lanes, x[:n])
	return n
}

func packSignsFast(bits []byte, x []float32) int {
	n := done(len(x), quantStride)
	packSignsAVX2(bits, x[:n])
	return n
}

func unpackSignsFast(x []float32, bits []byte, scale float32) int {
	n := done(len(x), quantStride)
	unpackSignsAVX2(x[:n], bits, scale)
	return n
}

func encodeBF16Fast(dst []byte, src []float32) int {
	n := done(len(src), quantStride)
	encodeBF16AVX2(dst, src[:n])
	return n
}

func decodeBF16Fast(dst []float32, src []byte) int {
	n := done(len(dst), quantStride)
	decodeBF16AVX2(dst[:n], src)
	return n
}

// The following functions are in the .s files. The vector of float32 has whole strides; the bytes
// are as many as those elements take, or more.

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
