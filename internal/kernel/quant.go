package kernel

import (
	"encoding/binary"
	"math"
)

// Quantisation: float32 values as fewer bits. What the formats have in common:
//
//   - A vector is cut into blocks, the last of which (the tail) may be shorter. A block is encoded
//     on its own: its scale, a little-endian float32, then one small integer an element. bf16 has
//     neither blocks nor scales.
//   - Every value of a block is a multiple of its scale. Decoding is one product, rounded once to
//     float32; in sign it is exact.
//   - Rounding is to the nearest integer, ties to the even one.
//   - A block whose scale would come out of values below 2^-100 is zeros: scale +0 and integers 0.
//     So no scale, and no decoded value but zero, is subnormal, and no reciprocal overflows. Error
//     feedback keeps what is lost.
//   - A block with a NaN or an Inf in it has NaN (0x7fc00000) for a scale, and bytes 0, which no
//     decoder takes. It cannot come about where callers keep to Bounded.
//
// Encoders are total: each input has exactly one encoding, on every architecture. Decoders refuse
// what no encoder writes where that is cheap to see: scales that are not +0 or a finite number from
// tiny up, integers out of range, a zero block with another integer than 0 or another block without
// its largest integer (int8, int4), unused bits that are set.
//
// int8 and int4 have the scale absmax/127 and absmax/7, and integers round(float32(x *
// float32(127/absmax))); sign has the mean of |x|, and one bit.

const (
	// QuantBlock is the number of elements that share a scale in int8 and int4.
	QuantBlock = 256
	// SignBlock is the number of elements that share a scale in sign.
	SignBlock = 1024

	scaleSize = 4

	int8Steps = 127
	int4Steps = 7

	tiny     = 0x1p-100 // below, a block is zeros
	tinyBits = (127 - 100) << 23
	// minScaleBits bounds scales from below: tiny/127 lies above 2^-107.
	minScaleBits = (127 - 107) << 23

	nanScale = 0x7fc00000

	// Adding it to a value of magnitude up to 2^22 leaves the value, rounded to the nearest
	// integer, in the low bits.
	toInteger     = 0x1.8p23
	toIntegerBits = 0x4b400000
)

// Blocks is an encoding of blocks of elements that have a scale in common.
type Blocks struct {
	Elements int // of a block
	bytes    func(n int) int
	encode   func(x []float32, b []byte)
	decode   func(x []float32, b []byte) bool
}

// Size is the number of bytes that n elements take.
func (q Blocks) Size(n int) int { return quantSize(n, q.Elements, q.bytes) }

// Encode writes src block by block. len(dst) must be Size(len(src)).
func (q Blocks) Encode(dst []byte, src []float32) {
	eachQuantBlock(src, dst, q.Elements, q.bytes, func(x []float32, b []byte) bool {
		q.encode(x, b)
		return true
	})
}

// Decode fills dst from what Encode wrote and returns -1, or the index of the first element of a
// block that it did not write; dst then holds anything from there on. len(src) must be
// Size(len(dst)).
func (q Blocks) Decode(dst []float32, src []byte) int {
	return eachQuantBlock(dst, src, q.Elements, q.bytes, q.decode)
}

// quantSize returns the number of bytes of n elements in blocks, the last of which may be shorter.
func quantSize(n, blockElements int, blockBytes func(n int) int) int {
	size := n / blockElements * blockBytes(blockElements)
	if rest := n % blockElements; rest > 0 {
		size += blockBytes(rest)
	}
	return size
}

// absMaxBits returns the largest magnitude of x, as bits: Inf ranks above all numbers, and NaN
// above Inf.
func absMaxBits(x []float32) uint32 {
	i := strided(len(x), quantStride)
	most := absMaxAVX2(x[:i])
	for _, v := range x[i:] {
		most = max(most, math.Float32bits(v)&^signBit)
	}
	return most
}

// scales returns a block's scale, and the factor that takes its values to integers up to steps,
// from the bits of its largest magnitude. ok is false if there is no scale: nanScale is to be
// written, and zeros.
func scales(most uint32, steps float32) (scale, factor float32, ok bool) {
	switch {
	case most >= exponentBits:
		return math.Float32frombits(nanScale), 0, false
	case most < tinyBits:
		return 0, 0, true
	}
	m := math.Float32frombits(most)
	return m / steps, steps / m, true
}

// beginBlock writes the scale of x to b, and zeros where there is none: ok is false then. Integers
// go into q.
func beginBlock(x []float32, b []byte, steps float32) (q []byte, factor float32, ok bool) {
	scale, factor, ok := scales(absMaxBits(x), steps)
	putScale(b, scale)
	if q = b[scaleSize:]; !ok {
		clear(q)
	}
	return q, factor, ok
}

// nearest returns the integer nearest to float32(v*factor), the even one of two, for magnitudes up
// to 2^22.
func nearest(v, factor float32) int32 {
	return int32(math.Float32bits(float32(v*factor)+toInteger) - toIntegerBits)
}

func putScale(dst []byte, scale float32) {
	binary.LittleEndian.PutUint32(dst, math.Float32bits(scale))
}

// getScale reads a scale; zero says that the block must be zeros, ok that it is one that an encoder
// writes.
func getScale(src []byte, least uint32) (scale float32, zero, ok bool) {
	b := binary.LittleEndian.Uint32(src)
	return math.Float32frombits(b), b == 0, b == 0 || b >= least && b < exponentBits
}

// eachQuantBlock calls f for each block of x and its bytes, until f says false; it returns where
// that block begins, -1 if none.
func eachQuantBlock(x []float32, b []byte, elements int, blockBytes func(n int) int,
	f func(x []float32, b []byte) bool,
) int {
	same(len(b), quantSize(len(x), elements, blockBytes))
	for at := 0; at < len(x); at += elements {
		n := min(elements, len(x)-at)
		size := blockBytes(n)
		if !f(x[at:at+n], b[:size]) {
			return at
		}
		b = b[size:]
	}
	return -1
}
