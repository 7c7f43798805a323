package kernel

// Int4 takes half a byte an element, rounded up at the tail, and 4 a block of QuantBlock: the scale
// absmax/7, then two elements a byte, the first in the low bits, each an integer from -7 to 7 plus
// 8. The high bits that a tail of odd length leaves are 0.
var Int4 = Blocks{QuantBlock, int4Bytes, encodeInt4, decodeInt4}

func int4Bytes(n int) int { return scaleSize + (n+1)/2 }

// int4Zero is the nibble of 0: integers -7 to 7 are written as 1 to 15.
const int4Zero = 8

func encodeInt4(x []float32, b []byte) {
	q, factor, ok := beginBlock(x, b, int4Steps)
	if !ok {
		return
	}
	i := strided(len(x), quantStride)
	toInt4AVX2(q, x[:i], factor)
	x, q = x[i:], q[i/2:]
	for len(x) >= 2 {
		q[0] = byte(nearest(x[0], factor)+int4Zero) | byte(nearest(x[1], factor)+int4Zero)<<4
		x, q = x[2:], q[1:]
	}
	if len(x) > 0 {
		q[0] = byte(nearest(x[0], factor) + int4Zero)
	}
}

func decodeInt4(x []float32, b []byte) bool {
	scale, zero, ok := getScale(b, minScaleBits)
	q := b[scaleSize:]
	i := strided(len(x), quantStride)
	most := int32(fromInt4AVX2(x[:i], q, scale))
	x, q = x[i:], q[i/2:]
	low, high := byte(int4Zero), byte(int4Zero)
	for len(x) >= 2 {
		first, second := q[0]&15, q[0]>>4
		low, high = min(low, first, second), max(high, first, second)
		x[0], x[1] = float32(int32(first)-int4Zero)*scale, float32(int32(second)-int4Zero)*scale
		x, q = x[2:], q[1:]
	}
	if len(x) > 0 {
		low, high = min(low, q[0]&15), max(high, q[0]&15)
		x[0] = float32(int32(q[0]&15)-int4Zero) * scale
		ok = ok && q[0]>>4 == 0
	}
	return ok && extremes(max(most, int4Zero-int32(low), int32(high)-int4Zero), int4Steps, zero)
}
