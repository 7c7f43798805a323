package kernel

// Int8Size is the number of bytes that n elements take in int8: one each, and 4 a block of
// QuantBlock.
func Int8Size(n int) int { return quantSize(n, QuantBlock, int8Bytes) }

func int8Bytes(n int) int { return scaleSize + n }

// EncodeInt8 writes src block by block: the scale absmax/127, then an int8 an element, -127 to 127.
// len(dst) must be Int8Size(len(src)).
func EncodeInt8(dst []byte, src []float32) {
	eachQuantBlock(src, dst, QuantBlock, int8Bytes, encodeInt8)
}

func encodeInt8(x []float32, b []byte) bool {
	q, factor, ok := beginBlock(x, b, int8Steps)
	if !ok {
		return true
	}
	i := strided(len(x), quantStride)
	toInt8AVX2(q, x[:i], factor)
	for j := i; j < len(x); j++ {
		q[j] = byte(nearest(x[j], factor))
	}
	return true
}

// DecodeInt8 fills dst from what EncodeInt8 wrote and returns -1, or the index of the first element
// of a block that it did not write; dst then holds anything from there on. len(src) must be
// Int8Size(len(dst)).
func DecodeInt8(dst []float32, src []byte) int {
	return eachQuantBlock(dst, src, QuantBlock, int8Bytes, decodeInt8)
}

func decodeInt8(x []float32, b []byte) bool {
	scale, zero, ok := getScale(b, minScaleBits)
	q := b[scaleSize:][:len(x)]
	i := strided(len(x), quantStride)
	most := int32(fromInt8AVX2(x[:i], q, scale))
	var low, high int8
	for j := i; j < len(x); j++ {
		v := int8(q[j])
		low, high = min(low, v), max(high, v)
		x[j] = float32(v) * scale
	}
	return ok && extremes(max(most, -int32(low), int32(high)), int8Steps, zero)
}

// extremes says whether the largest magnitude of a block's integers is an encoder's: that value is
// steps steps.
func extremes(most, steps int32, zero bool) bool {
	return zero && most == 0 || !zero && most == steps
}
