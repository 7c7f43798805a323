package slot

import (
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// Order lists the contributors to a range of one owner in the sequence in which their values are
// added up. With schedule rotation these are rising places. In a ring the sequence leads from the
// peer after the owner round to the owner. in is the set of contributors, and owner is a place in
// Offers.
func (p Plan) Order(owner int, in Bitmap) []int {
	order := make([]int, 0, len(p.Offers))
	if len(p.Ring) == 0 {
		for i := range p.Offers {
			order = append(order, i)
		}
	}
	after := 0 // the seat after the owner's
	for seat, place := range p.Ring {
		if int(place) == owner {
			after = seat + 1
		}
	}
	for i := range p.Ring {
		order = append(order, int(p.Ring[(after+i)%len(p.Ring)]))
	}
	kept := order[:0]
	for _, i := range order {
		if in.Has(i) {
			kept = append(kept, i)
		}
	}
	return kept
}

// Circle is the ring of a plan without the peers that are gone: places in Offers, in ring order.
// Each peer sends to the next one, and the last to the first.
func (p Plan) Circle() []int {
	var circle []int
	for _, place := range p.Ring {
		if !p.Gone.Has(int(place)) {
			circle = append(circle, int(place))
		}
	}
	return circle
}

// Beside tells whether two places are neighbours in the circle. Only neighbours have streams with
// each other.
func (p Plan) Beside(a, b int) bool {
	circle := p.Circle()
	i, j, n := slices.Index(circle, a), slices.Index(circle, b), len(circle)
	return i >= 0 && j >= 0 && i != j && ((i+1)%n == j || (j+1)%n == i)
}

// Round names the work of one circle: the pieces, their owners and the peers that are gone. The
// circle's streams carry it, and so do the reports of its peers about each other. It is zero with
// schedule rotation, where streams outlive revisions.
func (p Plan) Round() (none Root) {
	if len(p.Ring) == 0 {
		return none
	}
	group := p.Group()
	b := append([]byte("p2pdiloco/round/1"), group[:]...)
	for i := range p.Offers {
		b = wire.AppendBool(b, p.Gone.Has(i))
	}
	for _, piece := range p.Pieces {
		b = wire.AppendBytes(wire.AppendU64(wire.AppendU64(b, piece.Range.Begin), piece.Range.End), piece.Owner)
	}
	return Hash(b)
}

// RingOf tells whether a ring is a permutation of n places, or empty.
func RingOf(ring []uint16, n int) bool {
	if len(ring) == 0 {
		return true
	}
	seen := NewBitmap(n)
	for _, place := range ring {
		if int(place) >= n || seen.Has(int(place)) {
			return false
		}
		seen.Set(int(place))
	}
	return len(ring) == n
}

func appendRing(b []byte, ring []uint16) []byte {
	b = wire.AppendU32(b, uint32(len(ring)))
	for _, place := range ring {
		b = wire.AppendU16(b, place)
	}
	return b
}

func readRing(r *wire.Reader, n int) []uint16 {
	var ring []uint16
	for range r.Count(MaxMembers, 2) {
		ring = append(ring, r.U16())
	}
	if !RingOf(ring, n) {
		r.Fail("the ring is no permutation of %d offers", n)
	}
	return ring
}
