package allreduce

import (
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// circle is a plan's ring without those who are gone: places in the plan's offers, in ring order. What goes round goes from each to the
// next, and from the last to the first.
//
// A piece's partial result begins at the peer after its owner, at position 0, and ends at its owner, at position n-1, who finishes it; the
// reduced frames then go from the owner to positions 0, 1, … n-2.
type circle []int

func circleOf(plan slot.Plan) circle {
	var c circle
	for _, place := range plan.Ring {
		if !plan.Gone.Has(int(place)) {
			c = append(c, int(place))
		}
	}
	return c
}

// next is the place after another one, before the one before it.
func (c circle) next(place int) int { return c[(slices.Index(c, place)+1)%len(c)] }

func (c circle) before(place int) int { return c[(slices.Index(c, place)+len(c)-1)%len(c)] }

// position is how far a peer is from the owner of a piece.
func (c circle) position(owner, place int) int {
	n := len(c)
	return (slices.Index(c, place) - slices.Index(c, owner) - 1 + 2*n) % n
}

// set is who is in the circle, over n offers.
func (c circle) set(n int) slot.Bitmap {
	b := slot.NewBitmap(n)
	for _, place := range c {
		b.Set(place)
	}
	return b
}

// roundKey names what one circle works on: whose pieces, and who is gone. Streams carry it.
type roundKey [20]byte

func keyOf(plan slot.Plan) (k roundKey) {
	group := plan.Group()
	b := append([]byte("p2pdiloco/round/1"), group[:]...)
	for i := range plan.Offers {
		b = wire.AppendBool(b, plan.Gone.Has(i))
	}
	for _, p := range plan.Pieces {
		b = wire.AppendBytes(wire.AppendU64(wire.AppendU64(b, p.Range.Begin), p.Range.End), p.Owner)
	}
	h := slot.Hash(b)
	copy(k[:], h[:])
	return k
}

// trimmed is how many values of n an aggregator drops at each end: half of what it carries round besides the sum.
func (p Params) trimmed(n int) int {
	switch p.Aggregator {
	case TrimmedMean:
		return Trim(p.TrimPermille, n)
	case Median:
		return (n - 1) / 2
	default:
		return 0
	}
}

// roundWindow is the number of frames of a piece whose partial results may be under way at once: as many as fit into windowBytes for all
// pieces together, for in the worst case all wait at one peer.
func (g grid) roundWindow(pieces, trim int) int {
	each := 4 * g.frameElems * (2*trim + 1) * max(1, pieces)
	return min(max(windowBytes/each, minWindow), maxWindow)
}

// partialBytes is the size of the partial result of n contributions to frame f.
func (g grid) partialBytes(f, trim, n int) int { return 4 * kernel.Lanes(trim, n) * g.frameLen(f) }
