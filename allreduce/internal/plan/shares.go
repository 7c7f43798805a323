package plan

import (
	"cmp"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// maxShare bounds how much of the vector a peer may own, in equal shares: so much can a peer gain
// or lose others by what it claims.
const maxShare = 2

// even is how far apart uplinks may be and still count as equal: measurements err, and equal shares
// need no excuse.
const even = 1.5

// shares is which part of a vector each of n peers should own in a rotation, adding up to 1, and
// whether they differ.
//
// Peer i sends 1 - s_i of the vector raw and (n-1) s_i reduced, 1 + (n-2) s_i in all, whatever the
// others own, and as much comes in. So with an uplink u_i it is done after (1 + (n-2) s_i) / u_i,
// and the slowest is done soonest where all that own anything are done at the same time T: s_i = (T
// u_i - 1) / (n-2), not below 0 and not above maxShare/n, T being what makes them add up to 1.
// An uplink that is not known counts as a usual one. Two peers send each other one vector's worth
// whatever they own.
//
// A pair sends s_i + s_j each way: see relieve for those that a relay carries.
func shares(n int, links slot.Links) (share []float64, uneven bool) {
	share = slices.Repeat([]float64{1 / float64(n)}, n)
	if n < 3 {
		return share, false
	}
	up, uneven := uplinks(n, links)
	most := slices.Repeat([]float64{maxShare / float64(n)}, n)
	if uneven {
		share = fill(up, most)
	}
	if less := relieve(share, most, up, links); less != nil {
		return less, true
	}
	return share, uneven
}

// fill is the shares of peers with such uplinks, none above its bound; the bounds add up to 1 at
// least.
func fill(up, most []float64) []float64 {
	share := make([]float64, len(up))
	level := func(t float64) (sum float64) {
		for i, u := range up {
			share[i] = min(max(0, (t*u-1)/float64(len(up)-2)), most[i])
			sum += share[i]
		}
		return sum
	}
	low, high := 0.0, 1.0
	for level(high) < 1-1e-9 {
		high *= 2
	}
	for range 100 {
		if mid := (low + high) / 2; level(mid) < 1 {
			low = mid
		} else {
			high = mid
		}
	}
	sum := level(high)
	for i := range share {
		share[i] /= sum
	}
	return share
}

// uplinks are the peers', in kB/s, and whether they differ.
func uplinks(n int, links slot.Links) (up []float64, uneven bool) {
	var all []float64
	for i := range n {
		if u := links.Uplink(i); u > 0 {
			all = append(all, u)
		}
	}
	usual := median(all)
	low, high := usual, usual
	for i := range n {
		u := cmp.Or(links.Uplink(i), usual)
		up = append(up, u)
		low, high = min(low, u), max(high, u)
	}
	return up, high > even*low
}

// apportion cuts n frames by shares: each gets its share rounded down, and what is left goes one by
// one to the peers that lost most by it, the first of equal ones.
func apportion(n int, share []float64) []int {
	frames := make([]int, len(share))
	rest := make([]float64, len(share))
	left := n
	for i, s := range share {
		frames[i] = min(left, int(s*float64(n)))
		rest[i] = s*float64(n) - float64(frames[i])
		left -= frames[i]
	}
	for ; left > 0; left-- {
		best := 0
		for i, r := range rest {
			if r > rest[best]+1e-9 {
				best = i
			}
		}
		frames[best]++
		rest[best]--
	}
	return frames
}
