package kernel

import (
	"math"
	"math/bits"
)

// topKRoom is what the selection of a block's largest values needs.
type topKRoom struct {
	sizes [TopKBlock]uint32 // magnitudes, as bits
	at    [TopKBlock]uint16
	mask  [TopKBlock / 32]uint32
	steps []uint32 // thresholds
}

// topKLanes is how many groups the maxima of a strip of elements are of: element j is in group j%8.
const topKLanes = 8

// topKGroups is how many groups a block has at least.
const topKGroups = 64

// largest returns the positions of x's k values of largest magnitude, rising; of equal ones those
// that come first. most is the largest magnitude. No value is NaN.
//
//  1. maxima     the largest magnitudes of many groups of elements
//  2. least      a magnitude that k of these groups reach: so do k elements, and not many more
//  3. collect    the elements that reach it
//  4. least      the magnitude that exactly k of these reach, or the lowest that one of the k has
//  5. keep       those above it, and of those that have it as many as are missing, the first ones
func (r *topKRoom) largest(x []float32, k int, most uint32) []uint16 {
	bound := uint32(0)
	if groups := r.maxima(x, len(x)/max(2*k, topKGroups)); groups >= k {
		bound = least(r.sizes[:groups], k, k/8, 0, most+1)
	}
	n := r.collect(x, bound)
	sizes := r.sizes[:n]
	bound = least(sizes, k, 0, bound, most+1)
	ties := k - reaching(sizes, bound+1)
	kept := r.at[:0]
	for i, size := range sizes {
		if size < bound || size == bound && ties == 0 {
			continue
		}
		if size == bound {
			ties--
		}
		kept = append(kept, r.at[i])
	}
	return kept
}

// maxima fills sizes with the largest magnitude of each group of so many elements, and returns how
// many groups there are. What is left over at x's end is in none.
func (r *topKRoom) maxima(x []float32, each int) (groups int) {
	strip := topKLanes * each
	if each == 0 {
		return 0
	}
	for ; len(x) >= strip; x = x[strip:] {
		laneMaxima((*[topKLanes]uint32)(r.sizes[groups:]), x[:strip])
		groups += topKLanes
	}
	return groups
}

// laneMaxima sets most[j] to the largest magnitude of x's elements j, j+8, j+16 and so on.
func laneMaxima(most *[topKLanes]uint32, x []float32) {
	clear(most[:])
	for len(x) >= topKLanes {
		for j, v := range (*[topKLanes]float32)(x) {
			most[j] = max(most[j], math.Float32bits(v)&^signBit)
		}
		x = x[topKLanes:]
	}
}

// least returns a magnitude that at least k and at most k+slack of sizes reach, or the largest that
// at least k of them reach. At least k reach low, and none reaches high.
func least(sizes []uint32, k, slack int, low, high uint32) uint32 {
	for high-low > 1 {
		middle := low + (high-low)/2
		switch n := reaching(sizes, middle); {
		case n < k:
			high = middle
		case n <= k+slack:
			return middle
		default:
			low = middle
		}
	}
	return low
}

// reaching returns how many sizes are at least bound, which is not 0.
func reaching(sizes []uint32, bound uint32) (n int) {
	for _, s := range sizes {
		n += int((bound - 1 - s) >> 31)
	}
	return n
}

// collect fills at and sizes with x's elements whose magnitude reaches bound, and returns how many
// they are.
func (r *topKRoom) collect(x []float32, bound uint32) (n int) {
	i := 0
	for w, mask := range r.mask[:i/32] {
		for ; mask != 0; mask &= mask - 1 {
			p := 32*w + bits.TrailingZeros32(mask)
			r.at[n], r.sizes[n] = uint16(p), math.Float32bits(x[p])&^signBit
			n++
		}
	}
	for ; i < len(x); i++ {
		if size := math.Float32bits(x[i]) &^ signBit; size >= bound {
			r.at[n], r.sizes[n] = uint16(i), size
			n++
		}
	}
	return n
}
