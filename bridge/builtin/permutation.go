package builtin

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
)

// permutation is an order of the numbers below n that needs no memory: a Feistel network of four
// rounds over the least even number of bits that holds them, applied again until the result is
// below n (cycle walking: Black and Rogaway, "Ciphers with Arbitrary Finite Domains", 2002).
type permutation struct {
	n    uint64
	half int // bits of a half
	keys [4]uint64
}

func newPermutation(n uint64, key [32]byte) permutation {
	p := permutation{n: n, half: max(1, (bits.Len64(n-1)+1)/2)}
	for i := range p.keys {
		p.keys[i] = binary.BigEndian.Uint64(key[8*i:])
	}
	return p
}

// at is the number at position x, which is below n.
func (p *permutation) at(x uint64) uint64 {
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

// keyed hashes its arguments.
func keyed(purpose string, seed, n uint64) [32]byte {
	b := append(make([]byte, 0, 64), purpose...)
	b = binary.BigEndian.AppendUint64(b, seed)
	return sha256.Sum256(binary.BigEndian.AppendUint64(b, n))
}
