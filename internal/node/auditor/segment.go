package auditor

import (
	"errors"
	"math"
	"math/rand/v2"
	"sync"

	"github.com/p2pdiloco/p2pdiloco/allreduce/audit"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership"
)

// segment is a segment that is audited: the samples that were drawn of it, and what its
// contributors have shown of them.
type segment struct {
	*audit.Segment
	// a whole frame of one contributor, which shows whether its norm is true
	frame   slot.Range
	frameOf int // its place among the contributors; -1: none

	mu      sync.Mutex
	samples []slot.Range                   // guarded by mu while contributors are asked
	shown   []map[slot.Range]audit.Opening // of each contributor; guarded by mu
}

// draw draws samples of a segment. place is where in the fragment, from 0 to 1, a whole frame is
// looked at.
func (a *Auditor) draw(s audit.Statement, samples share, place float64, rnd *rand.Rand) (*segment, error) {
	seg, err := audit.New(a.cfg.Params, s)
	if err != nil {
		return nil, err
	}
	d := &segment{
		Segment: seg, frameOf: -1, shown: make([]map[slot.Range]audit.Opening, len(s.Offers)),
	}
	for k := range d.shown {
		d.shown[k] = map[slot.Range]audit.Opening{}
	}
	elements := a.cfg.Params.Fragments[s.Fragment]
	n := a.count(d, samples)
	a.taken.note(s.Slot, n, d.SampleCount(), a.cfg.Samples, samples.quorum)
	for _, sample := range d.Samples(n, rnd) {
		d.samples = append(d.samples, sample.Range)
	}
	if at := uint64(place * float64(elements)); s.Range.Begin <= at && at < s.Range.End {
		d.frame, d.frameOf = d.FrameAt(at).Range, rnd.IntN(len(s.Offers))
	}
	return d, nil
}

// share is what an elector's share of the samples goes by.
type share struct {
	segments int // segments of the outcome
	quorum   int // electors that share the samples of each of them
}

// Bounds on what audits cost: no more than a share of the bytes of the slot, but never fewer
// samples of a segment than these.
const (
	leastSamples = 4
	mostCost     = 20 // one part in so many
	sampleBytes  = 17 << 10
)

// count is how many samples of a segment this elector takes. Those of a quorum together take as
// many as the run says.
func (a *Auditor) count(s *segment, of share) int {
	up := func(n int) int { return (n + of.quorum - 1) / max(1, of.quorum) }
	if a.cfg.Samples == math.MaxInt {
		return s.SampleCount()
	}
	contributors, elements := len(s.Offers), int(a.cfg.Params.Fragments[s.Fragment])
	slotBytes := (a.in.EncodedSize(elements) + a.out.EncodedSize(elements)) * (contributors - 1) / max(1, contributors)
	affordable := slotBytes / mostCost / (sampleBytes * contributors * max(1, of.segments))
	return min(up(a.cfg.Samples), max(affordable, up(leastSamples)))
}

// listUnshown lists, by contributor, what was not shown yet.
func (s *segment) listUnshown() map[slot.PeerID][]ask {
	s.mu.Lock()
	defer s.mu.Unlock()
	asks := map[slot.PeerID][]ask{}
	for k, o := range s.Offers {
		wanted := s.samples
		if s.frameOf == k {
			wanted = append(wanted[:len(wanted):len(wanted)], s.frame)
		}
		for _, r := range wanted {
			if _, shown := s.shown[k][r]; !shown {
				asks[o.Peer] = append(asks[o.Peer], ask{s, k, r})
			}
		}
	}
	return asks
}

// openings are what all contributors have shown of a sample; ok is false where one has not.
func (s *segment) openings(r slot.Range) (all []audit.Opening, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k := range s.Offers {
		o, shown := s.shown[k][r]
		if !shown {
			return nil, false
		}
		all = append(all, o)
	}
	return all, true
}

// checkOpening takes in an opening. It fails if it is not of the contribution that was offered; lie
// is set where it proves that its contributor lies.
func (a *Auditor) checkOpening(q ask, o audit.Opening) (lie *membership.ReportFalseOffer, err error) {
	_, err = q.seg.CheckContribution(q.place, o)
	if err == nil {
		q.seg.mu.Lock()
		defer q.seg.mu.Unlock()
		q.seg.shown[q.place][q.r] = o
		return nil, nil
	}
	offer := q.seg.Offers[q.place]
	if f := (*audit.Fault)(nil); errors.As(err, &f) && f.Proven {
		if proof, err := audit.ProveContribution(a.cfg.Params, offer, o); err == nil {
			return &membership.ReportFalseOffer{Offer: offer, Proof: proof.Append(nil)}, nil
		}
	}
	a.cfg.Logger.Warn("a peer shows other bytes of a contribution than it was offered", "contributor", offer.Peer,
		"err", err)
	return nil, err
}
