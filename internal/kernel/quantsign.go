package kernel

import (
	"math"
	"slices"
)

// Sign takes a bit an element, rounded up at the tail, and 4 a block of SignBlock: the scale, which
// is the mean of the magnitudes, then the sign bit of each element, eight a byte, the first in the
// lowest bit. Unused bits at the tail are 0.
var Sign = Blocks{SignBlock, signBytes, encodeSign, decodeSign}

func signBytes(n int) int { return scaleSize + (n+7)/8 }

func encodeSign(x []float32, b []byte) {
	mean := float32(absSum(x) / float64(len(x)))
	bits := b[scaleSize:]
	if mean >= tiny && mean <= math.MaxFloat32 {
		putScale(b, mean)
		packSigns(bits, x)
		return
	}
	putScale(b, 0)
	if !(mean < tiny) { // NaN, too
		putScale(b, math.Float32frombits(nanScale))
	}
	clear(bits)
}

// absSum returns the sum of the magnitudes in float64: element j is added to lane j%8, lanes start
// from 0, and they are combined as those of NormSq are.
func absSum(x []float32) float64 {
	var l [8]float64
	i := strided(len(x), quantStride)
	absSumAVX2(&l, x[:i])
	x = x[i:]
	for len(x) >= len(l) {
		c := (*[8]float32)(x)
		l[0] += abs(c[0])
		l[1] += abs(c[1])
		l[2] += abs(c[2])
		l[3] += abs(c[3])
		l[4] += abs(c[4])
		l[5] += abs(c[5])
		l[6] += abs(c[6])
		l[7] += abs(c[7])
		x = x[len(l):]
	}
	for j, v := range x {
		l[j] += abs(v)
	}
	return combine(&l)
}

func abs(v float32) float64 { return float64(math.Float32frombits(math.Float32bits(v) &^ signBit)) }

func packSigns(bits []byte, x []float32) {
	i := strided(len(x), quantStride)
	packSignsAVX2(bits, x[:i])
	x, bits = x[i:], bits[i/8:]
	for len(x) >= 8 {
		c := (*[8]float32)(x)
		bits[0] = byte(bit(c[0], 0) | bit(c[1], 1) | bit(c[2], 2) | bit(c[3], 3) |
			bit(c[4], 4) | bit(c[5], 5) | bit(c[6], 6) | bit(c[7], 7))
		x, bits = x[8:], bits[1:]
	}
	if len(x) > 0 {
		bits[0] = 0
		for j, v := range x {
			bits[0] |= byte(bit(v, j))
		}
	}
}

// bit returns v's sign at bit j.
func bit(v float32, j int) uint32 { return math.Float32bits(v) >> 31 << j }

func decodeSign(x []float32, b []byte) bool {
	scale, zero, ok := getScale(b, tinyBits)
	bits, s := b[scaleSize:], math.Float32bits(scale)
	n := strided(len(x), quantStride)
	unpackSignsAVX2(x[:n], bits, scale)
	for i := n / 8; i < len(bits); i++ {
		for j := range x[8*i : min(8*i+8, len(x))] {
			x[8*i+j] = math.Float32frombits(s | uint32(bits[i])>>j<<31)
		}
	}
	unused := byte(0)
	if rest := len(x) % 8; rest > 0 {
		unused = bits[len(bits)-1] >> rest
	}
	return ok && unused == 0 && !(zero && slices.ContainsFunc(bits, func(b byte) bool { return b != 0 }))
}
