package kernel

// Int8 takes a byte an element, and 4 a block of QuantBlock: the scale absmax/127, then an int8 an
// element, -127 to 127.
var Int8 = Blocks{QuantBlock, int8Bytes, encodeInt8, decodeInt8}

func int8Bytes(n int) int { return scaleSize + n }

func encodeInt8(x []float32, b []byte) {
	q, factor, ok := beginBlock(x, b, int8Steps)
	if !ok {
		return
	}
	i := strided(len(x), quantStride)
	toInt8AVX2(q, x[:i], factor)
	for j := i; j < len(x); j++ {
		q[j] = byte(nearest(x[j], factor))
	}
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
