package plan

import (
	"fmt"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Circle is a plan's ring without the peers that are gone: places in the plan's offers, in ring
// order. Every peer sends to the next one, and the last one to the first.
//
// A piece's partial result begins at the peer after its owner, at position 0, and ends at its
// owner, at position n-1, which finishes it. The reduced frames then go from the owner to positions
// 0, 1, … n-2.
type Circle []int

// Next is the place after a place.
func (c Circle) Next(place int) int { return c[(slices.Index(c, place)+1)%len(c)] }

// Before is the place before a place.
func (c Circle) Before(place int) int { return c[(slices.Index(c, place)+len(c)-1)%len(c)] }

// Position is how many steps after the first peer of a piece a peer comes; the owner comes last.
func (c Circle) Position(owner, place int) int {
	n := len(c)
	return (slices.Index(c, place) - slices.Index(c, owner) - 1 + 2*n) % n
}

// Set is the circle as a bitmap over n offers.
func (c Circle) Set(n int) slot.Bitmap {
	b := slot.NewBitmap(n)
	for _, place := range c {
		b.Set(place)
	}
	return b
}

// RoundKey identifies a plan's round on a stream: the first bytes of its hash.
type RoundKey [20]byte

// KeyOf is the key of a plan's round.
func KeyOf(plan slot.Plan) RoundKey {
	round := plan.Round()
	return RoundKey(round[:len(RoundKey{})])
}

// Trimmed is how many of n values the aggregator drops at each end. A partial result carries twice
// as many values besides the sum.
func (p Params) Trimmed(n int) int { return Tolerated(p.Aggregator, p.TrimPermille, n) }

const (
	// of a partial result; with more, a ring sends many times a rotation's bytes
	maxLanes  = 16
	ringBytes = 512 << 20 // of partial results and norms that a peer of a ring may have to hold
)

// CheckRing says whether a plan's ring is within bounds. A frame's partial result then fits what a
// header can say.
func (p Params) CheckRing(g Grid, plan slot.Plan) error {
	if len(plan.Ring) == 0 {
		return nil
	}
	if !p.Rings() {
		return fmt.Errorf("plan with a ring, which a run with schedule %q and aggregator %s has none of", p.Schedule,
			p.Aggregator)
	}
	n := plan.Living()
	lanes := kernel.Lanes(p.Trimmed(n), n)
	if lanes > maxLanes {
		return fmt.Errorf("partial results of a ring of %d hold %d values a coordinate: at most %d are allowed", n,
			lanes, maxLanes)
	}
	held := MinWindow * uint64(len(plan.Pieces)) * uint64(lanes) * Float32Size * uint64(g.FrameElements)
	if p.Clip {
		held += uint64(n) * uint64(g.Frames) * 8
	}
	if held > ringBytes {
		return fmt.Errorf("a peer of a ring of %d with %d pieces may have to hold %d MiB: at most %d are allowed", n,
			len(plan.Pieces), held>>20, ringBytes>>20)
	}
	return nil
}

// RoundWindow is the number of frames of a piece whose partial results may be under way at once. As
// many as fit into WindowBytes for all pieces together: in the worst case all wait at one peer.
func (g Grid) RoundWindow(pieces, trim int) int {
	each := 4 * g.FrameElements * (2*trim + 1) * max(1, pieces)
	return min(max(WindowBytes/each, MinWindow), maxWindow)
}
