package builtin

import "math/bits"

// permutation is an order of the numbers below n that needs no memory: a Feistel network of four
// rounds over the least even number of bits that holds them, applied again until the result is
// below n (cycle walking: Black and Rogaway, "Ciphers with Arbitrary Finite Domains", 2002).
type permutation struct {
	n    uint64
	half int // bits of a half
	keys [4]uint64
}

func newPermutation(n uint64, keys [4]uint64) permutation {
	return permutation{n: n, half: max(1, (bits.Len64(n-1)+1)/2), keys: keys}
}

// apply returns the number at position x, which is below n.
func (p *permutation) apply(x uint64) uint64 {
	mask := uint64(1)<<p.half - 1
	for {
		left, right := x>>p.half, x&mask
		for _, key := range p.keys {
			left, right = right, left^mix(right+key)&mask
		}
		if x = left<<p.half | right; x < p.n {
			return x
		}
	}
}

// mix is the finalizer of SplitMix64 (Steele, Lea and Flood 2014).
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// epochWords says what an epoch of a run of this seed begins with: SplitMix64's words, of which the
// first gives the offset of the windows, and the others the keys of their order. Nobody needs to be
// kept from guessing them, since all peers know the seed; and a trainer in C or CUDA computes them
// in three lines.
func epochWords(seed, epoch uint64) (offset uint64, keys [4]uint64) {
	key := mix(mix(seed)+epoch) + golden
	offset = mix(key)
	for i := range keys {
		key += golden
		keys[i] = mix(key)
	}
	return offset, keys
}

// golden is 2^64 divided by the golden ratio, the step of SplitMix64.
const golden = 0x9e3779b97f4a7c15
