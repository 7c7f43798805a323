package kernel

import "math"

// Sub sets dst[j] = a[j] - b[j]. A pseudo-gradient is Sub(dst, anchor, local), so that an outer SGD
// step descends.
func Sub(dst, a, b []float32) {
	same(len(dst), len(a), len(b))
	i := strided(len(dst), stride)
	subAVX2(dst[:i], a, b)
	subGo(dst[i:], a[i:], b[i:])
}

func subGo(dst, a, b []float32) {
	a, b = a[:len(dst)], b[:len(dst)]
	for j := range dst {
		dst[j] = a[j] - b[j]
	}
}

// Mul sets dst[j] = a[j] * b[j]. It combines scales: a contribution's weight times its clip.
// They are few, so there is no assembly for it.
func Mul(dst, a, b []float32) {
	same(len(dst), len(a), len(b))
	for j := range dst {
		dst[j] = a[j] * b[j]
	}
}

// Limit bounds the magnitude of what peers may contribute: no trained model comes near, and no sum
// over the members of a run, nor the outer momentum made of it, can overflow.
const Limit = 0x1p100

const (
	exponentBits = 0x7f800000
	// added to an exponent of Limit's or above it carries into the sign bit
	limitCarry = (256 - (100 + 127)) << 23
	signBit    = 0x80000000
)

// Bounded returns the index of the first element of x that is NaN, Inf, or Limit or more in
// magnitude; -1 when there is none.
func Bounded(x []float32) int {
	i := boundedAVX2(x[:strided(len(x), stride)])
	if j := boundedGo(x[i:]); j >= 0 {
		return i + j
	}
	return -1
}

// BoundedMean returns the index of the first element of x that no rounded mean of values below
// Limit is: NaN, Inf, or above twice Limit in magnitude; -1 when there is none.
func BoundedMean(x []float32) int {
	for at := 0; ; at++ {
		i := Bounded(x[at:])
		if i < 0 {
			return -1
		}
		if at += i; !(x[at] >= -2*Limit && x[at] <= 2*Limit) {
			return at
		}
	}
}

func boundedGo(x []float32) int {
	const step = 8
	rest := x
	for len(rest) >= step {
		c := (*[step]float32)(rest)
		even := carry(c[0]) | carry(c[2]) | carry(c[4]) | carry(c[6])
		odd := carry(c[1]) | carry(c[3]) | carry(c[5]) | carry(c[7])
		if (even|odd)&signBit != 0 {
			break
		}
		rest = rest[step:]
	}
	for j, v := range rest {
		if carry(v)&signBit != 0 {
			return len(x) - len(rest) + j
		}
	}
	return -1
}

// carry has its sign bit set exactly when v is NaN, Inf, or too large.
func carry(v float32) uint32 { return math.Float32bits(v)&exponentBits + limitCarry }

// Add sets dst[j] = a[j] + b[j].
func Add(dst, a, b []float32) {
	same(len(dst), len(a), len(b))
	i := strided(len(dst), stride)
	addAVX2(dst[:i], a, b)
	addGo(dst[i:], a[i:], b[i:])
}

func addGo(dst, a, b []float32) {
	a, b = a[:len(dst)], b[:len(dst)]
	for j := range dst {
		dst[j] = a[j] + b[j]
	}
}
