package allreduce

import (
	"fmt"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// circle is a plan's ring without those who are gone: places in the plan's offers, in ring order. What goes round goes from each to the
// next, and from the last to the first.
//
// A piece's partial result begins at the peer after its owner, at position 0, and ends at its owner, at position n-1, who finishes it; the
// reduced frames then go from the owner to positions 0, 1, … n-2.
type circle []int

func circleOf(plan slot.Plan) circle { return plan.Circle() }

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

// roundKey is how much of a plan's round streams carry.
type roundKey [20]byte

func keyOf(plan slot.Plan) roundKey {
	round := plan.Round()
	return roundKey(round[:len(roundKey{})])
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

const (
	maxLanes  = 16        // of a partial result: with more, a ring sends many times what a rotation does
	ringBytes = 512 << 20 // of partial results and norms that a peer of a ring may have to hold
)

// checkRing says whether a plan's ring is within bounds. Those of partial results' sizes follow: a frame's is far below what a header can say.
func (p Params) checkRing(g grid, plan slot.Plan) error {
	if len(plan.Ring) == 0 {
		return nil
	}
	if !p.Rings() {
		return fmt.Errorf("plan with a ring, which a run with schedule %q and aggregator %s has none of", p.Schedule, p.Aggregator)
	}
	n := plan.Living()
	lanes := kernel.Lanes(p.trimmed(n), n)
	if lanes > maxLanes {
		return fmt.Errorf("partial results of a ring of %d hold %d values a coordinate: at most %d are allowed", n, lanes, maxLanes)
	}
	held := minWindow * uint64(len(plan.Pieces)) * uint64(lanes) * float32Size * uint64(g.frameElems)
	if p.Clip {
		held += uint64(n) * uint64(g.frames) * 8
	}
	if held > ringBytes {
		return fmt.Errorf("a peer of a ring of %d with %d pieces may have to hold %d MiB: at most %d are allowed", n, len(plan.Pieces), held>>20, ringBytes>>20)
	}
	return nil
}

// roundWindow is the number of frames of a piece whose partial results may be under way at once: as many as fit into windowBytes for all
// pieces together, for in the worst case all wait at one peer.
func (g grid) roundWindow(pieces, trim int) int {
	each := 4 * g.frameElems * (2*trim + 1) * max(1, pieces)
	return min(max(windowBytes/each, minWindow), maxWindow)
}

// partialBytes is the size of the partial result of n contributions to frame f.
func (g grid) partialBytes(f, trim, n int) int { return 4 * kernel.Lanes(trim, n) * g.frameLen(f) }
