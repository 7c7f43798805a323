package kernel

import "math"

// Lanes are a reduction of contributions that come one after the other, as they do where a partial
// result goes from peer to peer. With k values to be trimmed from each end, the partial of n
// contributions is Lanes(k, n) lanes of a value for each coordinate, one lane behind the other:
// first the lowest and highest values seen so far, in rising order (all of them up to 2k; from then
// on the k lowest and the k highest), then, from more than 2k on, the sum of the rest. With k = 0
// that is the sum alone.
//
// AddLane for each contribution in order and then FinishLanes gives the bits of TrimmedMeanInto
// with the columns in that order, and the lane of the sum has those of MeanInto where k is 0:
// nothing that is trimmed in the end has ever been in the sum.

// Lanes returns the number of lanes of the partial of n contributions, k trimmed from each end.
func Lanes(k, n int) int {
	if n <= 2*k {
		return n
	}
	return 2*k + 1
}

// AddLane adds a contribution's column, times scale, to the partial of n others, in place. lanes
// has room for the lanes that come out, Lanes(k, n+1); what lies behind those that go in is not
// read. Rising values are kept by moving x up through the lanes: x is what is left over. The sum
// starts from +0.
func AddLane(lanes, col []float32, scale float32, k, n int) {
	size := len(col)
	same(Lanes(k, n+1)*size, len(lanes))
	if k < 0 || n < 0 {
		panic("kernel: a partial of less than nothing")
	}
	if n == 2*k {
		clear(lanes[n*size:])
	}
	if k == 0 {
		for j, v := range col {
			lanes[j] += float32(scale * v)
		}
		return
	}
	eachBlock(col, 0, func(c []float32, at int) {
		var value [block]float32
		x := value[:len(c)]
		scaled(x, c, scale, 0)
		addBlock(func(l int) []float32 { return lanes[l*size+at:][:len(c)] }, x, k, n)
	})
}

// addBlock adds a block of scaled values to the lanes of n others. x is overwritten.
func addBlock(lane func(int) []float32, x []float32, k, n int) {
	if n < 2*k { // lanes are being filled
		for l := range n {
			order(lane(l), x)
		}
		copy(lane(n), x)
		return
	}
	for l := range k {
		order(lane(l), x)
	}
	for l := 2*k - 1; l >= k; l-- {
		order(x, lane(l))
	}
	sum := lane(2 * k)
	for j, v := range x {
		sum[j] += v
	}
}

// FinishLanes sets dst to the trimmed mean of n contributions: the sum over n-2k. It panics unless
// 2k < n.
func FinishLanes(dst, lanes []float32, k, n int) {
	if k < 0 || n <= 2*k {
		panic("kernel: trimming leaves nothing")
	}
	same(len(dst)*(2*k+1), len(lanes))
	sum := lanes[2*k*len(dst):]
	kept := float32(n - 2*k)
	for j, s := range sum {
		dst[j] = s / kept
	}
}

// BoundedLanes returns the index of the first element that cannot be in the lanes of n
// contributions below Limit in magnitude, k of them trimmed from each end; -1 when there is none. A
// value must be below Limit itself. A sum of m values is at most m x Limit: that is a float32 of
// its own up to m = 2^24, so no rounding leads beyond it. A peer that adds a value below Limit to a
// sum within the bound gets a sum within the next bound. A fixed bound would blame a peer that adds
// to a sum just below it.
func BoundedLanes(lanes []float32, k, n int) int {
	size := len(lanes) / max(1, Lanes(k, n))
	same(Lanes(k, n)*size, len(lanes))
	values := min(n, 2*k) * size
	if at := Bounded(lanes[:values]); at >= 0 {
		return at
	}
	if at := within(lanes[values:], float32(n-2*k)*Limit); at >= 0 {
		return values + at
	}
	return -1
}

// within returns the index of the first element of x that is NaN or above limit in magnitude; -1
// when there is none.
func within(x []float32, limit float32) int {
	const step = 4
	most := math.Float32bits(limit) // above it the difference carries into the sign bit
	over := func(v float32) uint32 { return most - math.Float32bits(v)&^signBit }
	rest := x
	for len(rest) >= step {
		c := (*[step]float32)(rest)
		if (over(c[0])|over(c[1])|over(c[2])|over(c[3]))&signBit != 0 {
			break
		}
		rest = rest[step:]
	}
	for j, v := range rest {
		if over(v)&signBit != 0 {
			return len(x) - len(rest) + j
		}
	}
	return -1
}
