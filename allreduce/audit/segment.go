package audit

import (
	"errors"
	"fmt"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/allreduce/internal/plan"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// Statement is what an owner has signed of a range that it reduced, with the offers of those that
// contributed to it.
type Statement struct {
	Owner    slot.PeerID
	Slot     uint64
	Fragment uint32
	Usual    uint64       // weight; see slot.Weighing
	Range    slot.Range   // of the fragment
	Root     slot.Root    // slot.FrameRoot of the outcome's bytes
	Offers   []slot.Offer // of the contributors, in the order of their peers
}

// Append appends the canonical encoding.
func (s Statement) Append(b []byte) []byte {
	b = wire.AppendBytes(b, s.Owner)
	b = wire.AppendU64(wire.AppendU32(wire.AppendU64(b, s.Slot), s.Fragment), s.Usual)
	b = append(appendRange(b, s.Range), s.Root[:]...)
	b = wire.AppendU32(b, uint32(len(s.Offers)))
	for _, o := range s.Offers {
		b = o.Append(b)
	}
	return b
}

// leastOffer is less than any offer takes.
const leastOffer = 84

// ReadStatement reads what Append wrote. New checks whether it makes sense.
func ReadStatement(r *wire.Reader) Statement {
	s := Statement{
		Owner: slot.PeerID(r.Bytes(slot.MaxPeerIDLen)), Slot: r.U64(), Fragment: r.U32(), Usual: r.U64(),
		Range: readRange(r),
	}
	copy(s.Root[:], r.Take(len(s.Root)))
	n := r.Count(slot.MaxMembers, leastOffer)
	s.Offers = make([]slot.Offer, 0, n)
	for range n {
		s.Offers = append(s.Offers, slot.ReadOffer(r))
	}
	return s
}

func appendRange(b []byte, v slot.Range) []byte {
	return wire.AppendU64(wire.AppendU64(b, v.Begin), v.End)
}

func readRange(r *wire.Reader) slot.Range { return slot.Range{Begin: r.U64(), End: r.U64()} }

// Segment is a statement that fits a run. It may be used by many goroutines at once.
type Segment struct {
	Params allreduce.Params
	Statement
	grids
	first int // frame of the fragment with which it begins
}

// New says whether a run with these params can have such a segment. The params are the run's own.
// They must not be those of a ring: there a partial result passes through strangers, and nobody can
// tell who has changed it.
func New(p allreduce.Params, s Statement) (*Segment, error) {
	if err := auditable(p); err != nil {
		return nil, err
	}
	if s.Slot == 0 || s.Fragment != slot.FragmentOf(s.Slot, uint64(len(p.Fragments))) {
		return nil, fmt.Errorf("a segment of fragment %d in slot %d, which does not reduce it", s.Fragment, s.Slot)
	}
	g := gridsOf(p, s.Fragment)
	if !g.in.OnGrid(s.Range) {
		return nil, fmt.Errorf("segment %d..%d is not on the frame grid", s.Range.Begin, s.Range.End)
	}
	if err := checkPeers(p, s); err != nil {
		return nil, err
	}
	first, _ := g.in.FramesOf(s.Range)
	return &Segment{Params: p, Statement: s, grids: g, first: first}, nil
}

// auditable says whether a run's reductions can be audited.
func auditable(p allreduce.Params) error {
	if p.Schedule == allreduce.Ring {
		return errors.New("a ring cannot be audited: partial results pass through other peers")
	}
	return p.Validate()
}

func checkPeers(p allreduce.Params, s Statement) error {
	if len(s.Owner) == 0 || len(s.Owner) > slot.MaxPeerIDLen {
		return errors.New("a segment without an owner")
	}
	if len(s.Offers) == 0 || len(s.Offers) > slot.MaxMembers {
		return fmt.Errorf("a segment of %d contributors: 1 to %d are possible", len(s.Offers), slot.MaxMembers)
	}
	for i, o := range s.Offers {
		if o.Slot != s.Slot {
			return fmt.Errorf("the offer of %s is for slot %d, the segment of slot %d", o.Peer.Short(), o.Slot, s.Slot)
		}
		if o.Weight == 0 || !slot.IsNormSq(o.NormSq) {
			return fmt.Errorf("the offer of %s has the weight %d and the squared norm %v", o.Peer.Short(), o.Weight,
				o.NormSq)
		}
		if i > 0 && s.Offers[i-1].Peer >= o.Peer {
			return errors.New("the contributors' offers are not in the order of their peers")
		}
	}
	_, err := plan.NewAggregation(p, s.Slot, s.Usual, s.Offers)
	return err
}

// aggregation is that of the segment, which was found to be one.
func (s *Segment) aggregation() *plan.Aggregation {
	a, err := plan.NewAggregation(s.Params, s.Slot, s.Usual, s.Offers)
	if err != nil {
		panic("audit: a segment that New has not made: " + err.Error())
	}
	return a
}

// grids are those of the contributions to a fragment and of its outcome. Their frames are of the
// same elements.
type grids struct{ in, out plan.Grid }

func gridsOf(p allreduce.Params, fragment uint32) grids {
	return grids{plan.NewGrid(p, fragment), plan.OutcomeGrid(p, fragment)}
}

// gridsOfOffer are those of the fragment that an offer is for.
func gridsOfOffer(p allreduce.Params, o slot.Offer) (grids, error) {
	if err := auditable(p); err != nil {
		return grids{}, err
	}
	if o.Slot == 0 {
		return grids{}, errors.New("an offer for slot 0")
	}
	return gridsOf(p, slot.FragmentOf(o.Slot, uint64(len(p.Fragments)))), nil
}

// leastUnit is the least number of elements that are shown: 1 KiB of float32.
const leastUnit = 256

// unit is the number of elements that are compared and proven as one: a multiple of the blocks of
// both codecs, which divide each other. Units are counted from the begin of each frame; the last
// one of a frame may be shorter.
func (g grids) unit() int { return max(leastUnit, g.in.Codec.Block, g.out.Codec.Block) }

// span is a range of elements within a frame.
type span struct{ frame, begin, end int }

// span finds a range. It fails unless the range is made of whole units of one frame.
func (g grids) span(r slot.Range) (span, error) {
	if r.Begin >= r.End || r.End > g.in.Total {
		return span{}, fmt.Errorf("%w: elements %d..%d of %d", errRange, r.Begin, r.End, g.in.Total)
	}
	size, unit := uint64(g.in.FrameElements), uint64(g.unit())
	s := span{int(r.Begin / size), int(r.Begin % size), 0}
	frame := g.in.Elements(s.frame, s.frame+1)
	s.end = int(r.End - frame.Begin)
	if r.End > frame.End || uint64(s.begin)%unit != 0 || r.End != frame.End && uint64(s.end)%unit != 0 {
		return span{}, fmt.Errorf("%w: elements %d..%d are not whole blocks of one frame", errRange, r.Begin, r.End)
	}
	return s, nil
}

var errRange = fmt.Errorf("%w: the range is none that can be shown", ErrOpening)

// within finds a range of the segment.
func (s *Segment) within(r slot.Range) (span, error) {
	if r.Begin < s.Range.Begin || r.End > s.Range.End {
		return span{}, fmt.Errorf("%w: elements %d..%d are not in segment %d..%d", errRange, r.Begin, r.End,
			s.Range.Begin, s.Range.End)
	}
	return s.span(r)
}

// whole says whether a span is all of its frame.
func (g grids) whole(s span) bool { return s.begin == 0 && s.end == g.in.FrameLen(s.frame) }
