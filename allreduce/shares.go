package allreduce

import "github.com/p2pdiloco/p2pdiloco/internal/slot"

// maxShare bounds how much of the vector a peer may own, in equal shares: so much can a peer gain or lose others by what it claims.
const maxShare = 2

// even is how far apart uplinks may be and still count as equal: measurements err, and equal shares need no excuse.
const even = 1.5

// shares is which part of a vector each of n peers should own in a rotation, adding up to 1.
//
// Peer i sends 1 - s_i of the vector raw and (n-1) s_i reduced, 1 + (n-2) s_i in all, whatever the others own, and as much comes in. So
// with an uplink u_i it is done after (1 + (n-2) s_i) / u_i, and the slowest is done soonest where all that own anything are done at the
// same time T: s_i = (T u_i - 1) / (n-2), not below 0 and not above maxShare/n, T being what makes them add up to 1. Whose uplink is
// not known is taken for a usual one. Two peers send each other one vector's worth whatever they own.
func shares(n int, links slot.Links) []float64 {
	share := make([]float64, n)
	up, uneven := uplinks(n, links)
	if n < 3 || !uneven {
		for i := range share {
			share[i] = 1 / float64(n)
		}
		return share
	}
	most := maxShare / float64(n)
	fill := func(t float64) (sum float64) {
		for i, u := range up {
			share[i] = min(max(0, (t*u-1)/float64(n-2)), most)
			sum += share[i]
		}
		return sum
	}
	low, high := 0.0, 1.0
	for fill(high) < 1 {
		high *= 2
	}
	for range 100 {
		if mid := (low + high) / 2; fill(mid) < 1 {
			low = mid
		} else {
			high = mid
		}
	}
	sum := fill(high)
	for i := range share {
		share[i] /= sum
	}
	return share
}

// uplinks are the peers' in units of a usual one, and whether they differ.
func uplinks(n int, links slot.Links) (up []float64, uneven bool) {
	var all []float64
	for i := range n {
		if u := links.Uplink(i); u > 0 {
			all = append(all, u)
		}
	}
	usual := median(all)
	low, high := 1.0, 1.0
	for i := range n {
		u := known(links.Uplink(i), usual) / usual
		up = append(up, u)
		low, high = min(low, u), max(high, u)
	}
	return up, high > even*low
}

// apportion cuts n frames by shares: each gets its share rounded down, and what is left goes one by one to those who lost most by it, the
// first of equal ones.
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
