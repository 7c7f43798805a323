package kernel

import (
	"math"
	"slices"
)

// topKRoom is what the selection of a block's largest values needs.
type topKRoom struct {
	sizes [TopKBlock]uint32 // magnitudes, as bits
	at    [TopKBlock + topKSpare]uint16
	most  uint32   // the largest magnitude
	steps []uint32 // thresholds
}

// topKLanes is how many groups the maxima of a strip of elements are of: element j is in group j%8.
const topKLanes = 8

// topKSpare is how many positions more than there are collectAVX2 may write.
const topKSpare = 4

// topKGroups is how many groups a block has at least.
const topKGroups = 64

// largest returns the positions of x's k values of largest magnitude, rising; of equal ones those
// that come first. maxima comes before it, and no value is NaN.
//
//  1. maxima     the largest magnitudes of many groups of elements
//  2. least      a magnitude that k of these groups reach: so do k elements, and not many more
//  3. collect    the elements that reach it
//  4. least      the magnitude that exactly k of these reach, or the lowest that one of the k has
//  5. keep       those above it, and of those that have it as many as are missing, the first ones
func (r *topKRoom) largest(x []float32, k, groups int) []uint16 {
	bound := uint32(0)
	if groups >= k {
		bound = least(r.sizes[:groups], k, k/8, 0, r.most+1)
	}
	n := r.collect(x, bound)
	sizes := r.sizes[:n]
	bound = least(sizes, k, 0, bound, r.most+1)
	ties := k - reaching(sizes, bound+1)
	n = 0
	for i, size := range sizes {
		if size == bound {
			if ties == 0 {
				continue
			}
			ties--
		}
		r.at[n] = r.at[i]
		n += reaches(size, bound)
	}
	return r.at[:n]
}

// reaches is 1 if a magnitude is at least bound, else 0. A branch would often be mispredicted.
func reaches(size, bound uint32) int { return int((bound - 1 - size) >> 31) }

// maxima fills sizes with the largest magnitude of each of so many groups of elements, of which k
// are to be chosen, and most with the largest of all. What is left over at x's end is in no group.
func (r *topKRoom) maxima(x []float32, k int) (groups int) {
	each := max(1, len(x)/max(2*k, topKGroups))
	strips := strided(len(x)/(topKLanes*each), 1)
	most := maximaAVX2(r.sizes[:], x[:strips*topKLanes*each], each)
	groups, x = strips*topKLanes, x[strips*topKLanes*each:]
	for strip := topKLanes * each; len(x) >= strip; x = x[strip:] {
		maxima := (*[topKLanes]uint32)(r.sizes[groups:])
		laneMaxima(maxima, x[:strip])
		most = max(most, slices.Max(maxima[:]))
		groups += topKLanes
	}
	r.most = max(most, absMaxBits(x))
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

// reaching returns how many sizes are at least bound.
func reaching(sizes []uint32, bound uint32) int {
	i := strided(len(sizes), reachingStride)
	n := reachingAVX2(sizes[:i], bound)
	for _, s := range sizes[i:] {
		n += reaches(s, bound)
	}
	return n
}

// collect fills at and sizes with x's elements whose magnitude reaches bound, and returns how many
// they are.
func (r *topKRoom) collect(x []float32, bound uint32) int {
	i := strided(len(x), collectStride)
	n := collectAVX2(r.at[:], x[:i], bound)
	for j, p := range r.at[:n] {
		r.sizes[j] = math.Float32bits(x[p]) &^ signBit
	}
	for ; i < len(x); i++ {
		if size := math.Float32bits(x[i]) &^ signBit; size >= bound {
			r.at[n], r.sizes[n] = uint16(i), size
			n++
		}
	}
	return n
}
