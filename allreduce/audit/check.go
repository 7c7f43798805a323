package audit

import (
	"fmt"
	"math"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Fault says what is wrong with an opening of a peer's contribution.
type Fault struct {
	Peer slot.PeerID
	// Proven: the opening leads to the root that the peer has offered, and no honest peer offers
	// such bytes. ProveContribution makes a proof of it. Otherwise Err wraps ErrOpening, and
	// whoever has shown it has shown other bytes.
	Proven bool
	Err    error
}

// Error says whose contribution it is, and what is wrong with it.
func (f *Fault) Error() string {
	return fmt.Sprintf("contribution of %s: %v", f.Peer.Short(), f.Err)
}

// Unwrap is what is wrong.
func (f *Fault) Unwrap() error { return f.Err }

// CheckContribution checks an opening against the offer at a place, and decodes it: the values are
// those of o.Range, for reading only, and o.NormSq is what the peer has committed to. Of a whole
// frame the norm is checked, too. An error is a *Fault.
func (s *Segment) CheckContribution(place int, o Opening) ([]float32, error) {
	at, err := s.within(o.Range)
	if err != nil {
		return nil, &Fault{s.Offers[place].Peer, false, err}
	}
	return s.values(s.Offers[place], at, o)
}

// values checks an opening of a span against an offer and decodes it.
func (g grids) values(offer slot.Offer, at span, o Opening) ([]float32, error) {
	hash, encoded, err := o.hash(g.in, at)
	if err != nil {
		return nil, &Fault{offer.Peer, false, err}
	}
	root, ok := slot.ContributionRootFrom(offer.Peer, slot.FrameLeaf{NormSq: o.NormSq, Hash: hash}, at.frame, o.Path,
		g.in.FrameBytes, uint64(g.in.TotalBytes))
	if !ok || root != offer.Root {
		return nil, &Fault{offer.Peer, false, fmt.Errorf("%w: they do not lead to the root %s of the offer", ErrOpening,
			offer.Root.Short())}
	}
	values, err := g.honest(encoded, at, o.NormSq)
	if err != nil {
		return nil, &Fault{offer.Peer, true, err}
	}
	return values, nil
}

// partMore is by how much the squares of a part of a frame may seem more than those of the whole,
// whose sum of up to 2^22 numbers is rounded each time.
const partMore = 1 + 0x1p-30

// honest decodes what leads to an offered root, and says whether an honest peer offers it.
func (g grids) honest(encoded []byte, at span, norm float64) ([]float32, error) {
	values := make([]float32, at.end-at.begin)
	if err := g.in.Codec.Decode(values, encoded); err != nil {
		return nil, err
	}
	if i := kernel.Bounded(values); i >= 0 {
		return nil, fmt.Errorf("element %d of frame %d: %w", at.begin+i, at.frame, allreduce.ErrNotFinite)
	}
	part := kernel.NormSq(values)
	switch whole := g.whole(at); {
	case whole && math.Float64bits(part) != math.Float64bits(norm):
		return nil, fmt.Errorf("frame %d: %w: %v where %v is true", at.frame, allreduce.ErrFalseNorm, norm, part)
	case !whole && !(part <= norm*partMore) || math.IsInf(norm, 1):
		return nil, fmt.Errorf("frame %d: %w: %v where a part of it has %v", at.frame, allreduce.ErrFalseNorm, norm,
			part)
	default:
		return values, nil
	}
}

// CheckOutcome checks an opening of the outcome against the segment's root and returns the bytes of
// its range, in the outcome's codec. An error wraps ErrOpening.
func (s *Segment) CheckOutcome(o Opening) ([]byte, error) {
	at, err := s.within(o.Range)
	if err != nil {
		return nil, err
	}
	hash, encoded, err := o.hash(s.out, at)
	if err != nil {
		return nil, err
	}
	first, last := s.out.FramesOf(s.Range)
	root, ok := slot.FrameRootFrom(hash, at.frame-first, o.Path, s.out.FrameBytes, uint64(s.out.Size(first, last)))
	if !ok || root != s.Root || math.Float64bits(o.NormSq) != 0 {
		return nil, fmt.Errorf("%w: they do not lead to the root %s of the segment", ErrOpening, s.Root.Short())
	}
	return encoded, nil
}

// Recompute is what the outcome of a range must be, in the outcome's codec, by an opening of each
// contributor, in the order of the offers. An error is a *Fault of the first contributor whose
// opening is of no use, or says that there are not as many openings, or of another range.
func (s *Segment) Recompute(r slot.Range, openings []Opening) ([]byte, error) {
	if _, err := s.within(r); err != nil {
		return nil, err
	}
	if len(openings) != len(s.Offers) {
		return nil, fmt.Errorf("%d openings of %d contributors", len(openings), len(s.Offers))
	}
	cols, norms := make([][]float32, len(openings)), make([]float64, len(openings))
	for i, o := range openings {
		if o.Range != r {
			return nil, &Fault{s.Offers[i].Peer, false, fmt.Errorf("%w: elements %d..%d instead of %d..%d", ErrOpening,
				o.Range.Begin, o.Range.End, r.Begin, r.End)}
		}
		col, err := s.CheckContribution(i, o)
		if err != nil {
			return nil, err
		}
		cols[i], norms[i] = col, o.NormSq
	}
	sum := make([]float32, r.Len())
	s.aggregation().Frame(sum, cols, norms)
	return s.out.Codec.Append(nil, sum), nil
}

// Compare is the first block of a range in which the outcome's bytes are not what they must be.
// Both are as long as the range is in the outcome's codec; where one is not, they differ where it
// ends.
func (s *Segment) Compare(r slot.Range, want, got []byte) (block slot.Range, differs bool) {
	unit := uint64(s.unit())
	for at := r.Begin; at < r.End; at += unit {
		block = slot.Range{Begin: at, End: min(at+unit, r.End)}
		begin := s.out.Codec.EncodedSize(int(at - r.Begin))
		end := s.out.Codec.EncodedSize(int(block.End - r.Begin))
		if end > len(want) || end > len(got) || string(want[begin:end]) != string(got[begin:end]) {
			return block, true
		}
	}
	return slot.Range{}, false
}
