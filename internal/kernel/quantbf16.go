package kernel

import (
	"encoding/binary"
	"math"
)

// BF16Size is the number of bytes that n elements take in bfloat16: 2 each.
func BF16Size(n int) int { return 2 * n }

// EncodeBF16 writes the upper half of each value's bits, little-endian, rounded to nearest, ties to
// even. len(dst) must be BF16Size(len(src)). NaN stays NaN, with its quiet bit set; what rounds
// above the largest bfloat16 becomes Inf.
func EncodeBF16(dst []byte, src []float32) {
	same(len(dst), BF16Size(len(src)))
	i := strided(len(src), quantStride)
	encodeBF16AVX2(dst, src[:i])
	for j := i; j < len(src); j++ {
		binary.LittleEndian.PutUint16(dst[2*j:], toBF16(math.Float32bits(src[j])))
	}
}

func toBF16(b uint32) uint16 {
	if b&^signBit > exponentBits {
		return uint16(b>>16) | 0x40
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// DecodeBF16 is the inverse: exact, and every two bytes are some value's.
func DecodeBF16(dst []float32, src []byte) {
	same(len(src), BF16Size(len(dst)))
	i := strided(len(dst), quantStride)
	decodeBF16AVX2(dst[:i], src)
	for j := i; j < len(dst); j++ {
		dst[j] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(src[2*j:])) << 16)
	}
}
