package safetensors

import (
	"encoding/binary"
	"math"
)

// round writes src in a format of two bytes an element. It stops at the first finite value that
// became an infinity and returns its index; -1 is success.
func (d DType) round(dst []byte, src []float32) int {
	for i, v := range src {
		bits := math.Float32bits(v)
		half, infinity := toBrain(bits), uint16(0x7f80)
		if d == F16 {
			half, infinity = toHalf(bits), 0x7c00
		}
		if half&0x7fff == infinity && !math.IsInf(float64(v), 0) {
			return i
		}
		binary.LittleEndian.PutUint16(dst[2*i:], half)
	}
	return -1
}

const infinityBits = 0x7f800000 // of float32, without the sign

// toBrain rounds a float32 to bfloat16: to nearest, ties to even.
func toBrain(bits uint32) uint16 {
	if bits&^(1<<31) > infinityBits {
		return uint16(bits>>16) | 1<<6 // a NaN stays one, and a quiet one
	}
	return uint16((bits + 0x7fff + bits>>16&1) >> 16)
}

// toHalf rounds a float32 to IEEE 754 binary16: to nearest, ties to even.
func toHalf(bits uint32) uint16 {
	sign, abs := uint16(bits>>16)&0x8000, bits&^(1<<31)
	switch {
	case abs > infinityBits:
		return sign | 0x7e00
	case abs >= (127+16)<<23: // 2^16 and above
		return sign | 0x7c00
	case abs < (127-14)<<23: // subnormal: a whole number of 2^-24
		steps := math.RoundToEven(float64(math.Float32frombits(abs)) * (1 << 24))
		return sign | uint16(steps) // 1024 is the smallest normal number
	}
	abs -= (127 - 15) << 23 // the exponent's new bias
	return sign | uint16((abs+0xfff+abs>>13&1)>>13)
}
