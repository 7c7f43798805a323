package plan

import (
	"errors"
	"fmt"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Caps on what a run may ask for. They bound memory.
const (
	MaxFrames        = 1 << 20 // frames of one vector: 32 MiB of hashes
	MaxFrameElements = 1 << 22 // elements of one frame: 16 MiB as float32
)

// fullDiscount is the discount, per mille, that leaves a contribution as it is.
const fullDiscount = 1000

// Params are the values of the run spec that the all-reduce needs. They are equal on all peers.
type Params struct {
	// elements of each fragment, at least one: a slot reduces one of them (slot.FragmentOf)
	Fragments []uint64
	// elements of one frame, a multiple of the codec's block; pieces begin and end on its grid
	FrameElements int
	Aggregator    Aggregator // how the contributions to one coordinate become one value
	// trimmed mean: floor(TrimPermille x N / 1000) values go from each end; 0..499
	TrimPermille int
	// scale each contribution, per frame, to at most the median norm of the frame
	Clip bool
	// per mille, by staleness (slot-1-base); nothing staler is accepted; empty means {1000}
	Discount []uint32
	Codec    string   // name of the codec of contributions
	Outcome  string   // and of the outcome: see codec.NewOutcome
	Schedule Schedule // how contributions meet; empty means Rotation
	// caps the weight of a contribution at so many times the usual one; 0: no cap
	WeightRatio uint64
	// empty contributions weigh nothing (slot.Empty); no ring can leave them out
	Empties  bool
	MinPeers int // contributors with which a range may close; less than 1 means 1
}

// Validate reports every fault at once of what divides and combines the vector. What goes with what
// else is the run spec's to check.
func (p Params) Validate() error {
	var faults []error
	bad := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	in, out, err := p.Codecs()
	if err != nil {
		faults = append(faults, err)
	} else if block := max(in.Block, out.Block); p.FrameElements < 1 || p.FrameElements > MaxFrameElements ||
		p.FrameElements%block != 0 {
		bad("frame of %d elements: choose a multiple of %d from 1 to %d", p.FrameElements, block, MaxFrameElements)
	}
	if n := len(p.Fragments); n == 0 || n > slot.MaxFragments {
		bad("%d fragments: choose 1 to %d", n, slot.MaxFragments)
	}
	for i, elements := range p.Fragments {
		if elements == 0 {
			bad("fragment %d has no elements: the layout is empty, or has fewer than there are fragments", i)
		} else if p.FrameElements > 0 && (elements-1)/uint64(p.FrameElements) >= MaxFrames {
			bad("%d elements in frames of %d are more than %d frames: choose larger frames", elements, p.FrameElements,
				MaxFrames)
		}
	}
	if !slices.Contains(Aggregators(), p.Aggregator) {
		bad("aggregator %q: choose one of %v", p.Aggregator, Aggregators())
	}
	return errors.Join(faults...)
}

// Codecs are the codecs of contributions and of the outcome.
func (p Params) Codecs() (in, out codec.Codec, err error) {
	in, err = codec.New(p.Codec)
	if err == nil {
		out, err = codec.NewOutcome(p.Codec, p.Outcome)
	}
	return in, out, err
}

// Pieces divides a fragment among the peers that made offers: contiguous pieces on the frame grid,
// one a peer in the order of peer IDs, whose sizes differ by at most one frame. Where there are
// fewer frames than peers the last peers get none. It returns nil if there are no offers.
func Pieces(p Params, fragment uint32, offers []slot.Offer) []slot.Piece {
	owners := peersOf(offers)
	slices.Sort(owners)
	g, frames := NewGrid(p, fragment), make([]int, len(owners))
	for i := range frames {
		frames[i] = share(g.Frames, len(owners), i)
	}
	return g.pieces(owners, frames)
}

// Divide gives every element of a plan's vector an owner that is not gone, and is not in noOwner
// if some of the living are not. A plan without pieces is divided as Pieces says. In one that has
// some, what living peers own stays theirs, and what those own who are gone is cut up among the
// living: no one's share is larger than another's by more than one frame, and who owns least so far
// comes first. It returns nil if all are gone.
func Divide(p Params, plan slot.Plan, noOwner []bool) []slot.Piece {
	var living, barred []slot.Offer
	for i, o := range plan.Offers {
		switch {
		case plan.Gone.Has(i):
		case i < len(noOwner) && noOwner[i]:
			barred = append(barred, o)
		default:
			living = append(living, o)
		}
	}
	if len(living) == 0 {
		living = barred
	}
	if len(living) == 0 || len(plan.Pieces) == 0 {
		return Pieces(p, plan.Fragment, living)
	}
	return NewGrid(p, plan.Fragment).reassign(plan, peersOf(living))
}

// reassign cuts up the pieces of all owners but the living ones.
func (g Grid) reassign(plan slot.Plan, living []slot.PeerID) []slot.Piece {
	owned := make(map[slot.PeerID]int, len(living)) // frames
	// frames without an owner, and in how many pieces they lie
	free, freed := 0, 0
	for _, piece := range plan.Pieces {
		first, last := g.FramesOf(piece.Range)
		if slices.Contains(living, piece.Owner) {
			owned[piece.Owner] += last - first
			continue
		}
		free, freed = free+last-first, freed+1
	}
	slices.SortStableFunc(living, func(a, b slot.PeerID) int { return owned[a] - owned[b] })
	// Each heir but the last adds a cut at most.
	heirs := min(len(living), slot.MaxSegments-len(plan.Pieces)+1)
	next, left := 0, share(free, heirs, 0)
	var pieces []slot.Piece
	for _, piece := range plan.Pieces {
		if slices.Contains(living, piece.Owner) {
			pieces = append(pieces, piece)
			continue
		}
		for at, last := g.FramesOf(piece.Range); at < last; {
			for left == 0 {
				next++
				left = share(free, heirs, next)
			}
			end := min(last, at+left)
			pieces = append(pieces, slot.Piece{Range: g.Elements(at, end), Owner: living[next]})
			left, at = left-(end-at), end
		}
	}
	return pieces
}

// share is how many of n things the i-th of k gets.
func share(n, k, i int) int {
	if i < n%k {
		return n/k + 1
	}
	return n / k
}

// Planner divides plans and chooses the schedule of new ones, in the form that the ledger takes. A
// ring that would be out of bounds is none, in a revision too: then the group cannot go on.
func (p Params) Planner() func(slot.Plan, slot.Links) ([]slot.Piece, []uint16) {
	return func(plan slot.Plan, links slot.Links) ([]slot.Piece, []uint16) {
		if len(plan.Pieces) > 0 || plan.Living() == 0 {
			plan.Pieces = Divide(p, plan, links.NoOwner)
			return plan.Pieces, p.ringWithin(plan)
		}
		ringed := plan
		ringed.Pieces, ringed.Ring = Pieces(p, plan.Fragment, plan.Offers), p.choose(plan.Offers, links)
		if ring := p.ringWithin(ringed); ring != nil {
			return ringed.Pieces, ring
		}
		share, uneven := shares(len(plan.Offers), links)
		if !uneven || plan.Gone.Count() > 0 || slices.Contains(links.NoOwner, true) {
			return Divide(p, plan, links.NoOwner), nil
		}
		g := NewGrid(p, plan.Fragment)
		return g.pieces(peersOf(plan.Offers), apportion(g.Frames, share)), nil
	}
}

// ringWithin is a plan's ring, if it is within bounds.
func (p Params) ringWithin(plan slot.Plan) []uint16 {
	if p.CheckRing(NewGrid(p, plan.Fragment), plan) != nil {
		return nil
	}
	return plan.Ring
}

// pieces gives each owner so many frames, in their order.
func (g Grid) pieces(owners []slot.PeerID, frames []int) (pieces []slot.Piece) {
	first := 0
	for i, n := range frames {
		if n > 0 {
			pieces = append(pieces, slot.Piece{Range: g.Elements(first, first+n), Owner: owners[i]})
			first += n
		}
	}
	return pieces
}

// Trim is the number of values that a trimmed mean of n values drops at each end: floor(permille x
// n / 1000).
func Trim(permille, n int) int { return permille * n / 1000 }

// Tolerated is the number of bad peers among n contributors whose values cannot reach the outcome
// of a coordinate by themselves, whatever they send: what status calls the tolerated number. A
// plain mean tolerates none. Clipping bounds what the others can do but adds nothing here.
func Tolerated(a Aggregator, trimPermille, n int) int {
	switch a {
	case TrimmedMean:
		return Trim(trimPermille, n)
	case Median:
		return max(0, (n-1)/2)
	default:
		return 0
	}
}

func peersOf(offers []slot.Offer) []slot.PeerID {
	ids := make([]slot.PeerID, len(offers))
	for i, o := range offers {
		ids[i] = o.Peer
	}
	return ids
}

// Check says whether a plan fits the run: of the slot's fragment, the group sorted, offers
// fresh enough, pieces on the grid, covering the vector, owned by the group.
func Check(p Params, plan slot.Plan) error {
	if due := slot.FragmentOf(plan.Slot, uint64(len(p.Fragments))); plan.Fragment != due {
		return fmt.Errorf("plan for fragment %d in slot %d, which reduces fragment %d", plan.Fragment, plan.Slot, due)
	}
	if len(plan.Offers) == 0 || len(plan.Offers) > slot.MaxMembers {
		return fmt.Errorf("plan with %d offers: a group has 1 to %d peers", len(plan.Offers), slot.MaxMembers)
	}
	if err := p.CheckRing(NewGrid(p, plan.Fragment), plan); err != nil {
		return err
	}
	for i, o := range plan.Offers {
		if i > 0 && plan.Offers[i-1].Peer >= o.Peer {
			return errors.New("offers of the plan are not in the order of their peers")
		}
		if _, err := p.discount(plan.Slot, o); err != nil {
			return err
		}
		if o.Weight == 0 { // a group in which nobody weighs anything has no mean
			return fmt.Errorf("the offer of %s weighs nothing", o.Peer.Short())
		}
	}
	if plan.Gone != nil && !plan.Gone.Fits(len(plan.Offers)) {
		return fmt.Errorf("those gone are no bitmap over %d offers", len(plan.Offers))
	}
	if !slot.RingOf(plan.Ring, len(plan.Offers)) {
		return fmt.Errorf("the ring is no order of %d offers", len(plan.Offers))
	}
	return checkPieces(NewGrid(p, plan.Fragment), plan)
}

func checkPieces(g Grid, plan slot.Plan) error {
	if len(plan.Pieces) == 0 || len(plan.Pieces) > slot.MaxSegments {
		return fmt.Errorf("plan with %d pieces: 1 to %d are allowed", len(plan.Pieces), slot.MaxSegments)
	}
	var at uint64
	for _, piece := range plan.Pieces {
		if piece.Range.Begin != at || piece.Range.End <= at {
			return fmt.Errorf("pieces of the plan do not join at element %d", at)
		}
		if !g.OnGrid(piece.Range) {
			return fmt.Errorf("piece %d..%d of the plan is not on the frame grid", piece.Range.Begin, piece.Range.End)
		}
		if owner := plan.Place(piece.Owner); owner < 0 || plan.Gone.Has(owner) {
			return fmt.Errorf("owner %s of a piece is not in the group, or gone", piece.Owner.Short())
		}
		at = piece.Range.End
	}
	if at != g.Total {
		return fmt.Errorf("pieces of the plan end at element %d of %d", at, g.Total)
	}
	return nil
}
