package auditor

import (
	"context"
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/p2pdiloco/p2pdiloco/allreduce/audit"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership"
)

// segment is one segment of the audited draft.
type segment struct {
	*audit.Segment
	index   int // in the draft
	samples []slot.Range
	// a whole frame of one contributor, which shows whether its norm is true
	frame       slot.Range
	frameOf     int // its place among the contributors; -1: none
	contributed []map[slot.Range]audit.Opening
}

// job is one audit.
type job struct {
	*Auditor
	work        membership.WorkAudit
	segments    []*segment
	unshown     map[slot.PeerID]bool
	found       []membership.FalseSegment
	falseOffers []membership.Report
	mu          sync.Mutex // guards unshown, falseOffers and contributed while answers come
}

func newAudit(a *Auditor, w membership.WorkAudit) *job {
	return &job{Auditor: a, work: w, unshown: map[slot.PeerID]bool{}}
}

func (j *job) report() membership.ReportAudited {
	return membership.ReportAudited{
		Ref: j.work.Draft.Ref, Record: j.work.Record, False: j.found, Unshown: slices.Sorted(maps.Keys(j.unshown)),
	}
}

// draw draws the samples. Own segments are not looked at.
func (j *job) draw(rnd *rand.Rand) error {
	d := j.work.Draft
	if len(j.work.Owners) != len(d.Segments) {
		return errors.New("an audit without the owners of all segments")
	}
	for i, s := range d.Segments {
		if j.work.Owners[i] == j.cfg.Self {
			continue
		}
		var offers []slot.Offer
		for k, o := range d.Contributions {
			if s.Contributors.Has(k) {
				offers = append(offers, o)
			}
		}
		seg, err := audit.New(j.cfg.Params, audit.Statement{
			Owner: j.work.Owners[i], Slot: d.Slot, Fragment: d.Fragment, Usual: d.Usual, Range: s.Range, Root: s.Root,
			Offers: offers,
		})
		if err != nil {
			return err
		}
		j.segments = append(j.segments, &segment{
			Segment: seg, index: i, frameOf: -1, contributed: make([]map[slot.Range]audit.Opening, len(offers)),
		})
	}
	for _, s := range j.segments {
		for k := range s.contributed {
			s.contributed[k] = map[slot.Range]audit.Opening{}
		}
		for _, sample := range s.Samples(j.share(s), rnd) {
			s.samples = append(s.samples, sample.Range)
		}
	}
	if len(j.segments) > 0 {
		s := j.segments[rnd.IntN(len(j.segments))]
		s.frame, s.frameOf = s.Frame(rnd).Range, rnd.IntN(len(s.Offers))
	}
	return j.addSuspicious()
}

// Bounds on what audits cost: no more than a share of the bytes of the slot, but never fewer
// samples of a segment than these.
const (
	leastSamples = 4
	mostCost     = 20 // one part in so many
	sampleBytes  = 17 << 10
)

// share is how many samples of a segment this elector takes. Those of a quorum together take as
// many as the run says.
func (j *job) share(s *segment) int {
	quorum := max(1, j.work.Quorum)
	up := func(n int) int { return (n + quorum - 1) / quorum }
	if j.cfg.Samples == math.MaxInt {
		return s.SampleCount()
	}
	n, contributors := up(j.cfg.Samples), len(s.Offers)
	var elements uint64
	for _, seg := range j.work.Draft.Segments {
		elements += seg.Range.Len()
	}
	slotBytes := 2 * j.codec.EncodedSize(int(elements)) * (contributors - 1) / max(1, contributors)
	affordable := slotBytes / mostCost / (sampleBytes * contributors * max(1, len(j.segments)))
	return min(n, max(affordable, up(leastSamples)))
}

// gather asks all contributors at once for their parts of the samples.
func (j *job) gather(ctx context.Context) {
	asks := map[slot.PeerID][]ask{}
	for _, s := range j.segments {
		for k, o := range s.Offers {
			for _, r := range s.samples {
				asks[o.Peer] = append(asks[o.Peer], ask{s, k, r})
			}
			if s.frameOf == k {
				asks[o.Peer] = append(asks[o.Peer], ask{s, k, s.frame})
			}
		}
	}
	j.askAll(ctx, asks)
}

// askAll asks each contributor, and the leader for those that do not answer.
func (j *job) askAll(ctx context.Context, asks map[slot.PeerID][]ask) {
	var wg sync.WaitGroup
	for p, list := range asks {
		wg.Go(func() {
			missing := j.ask(ctx, p, list)
			if len(missing) > 0 && j.work.Leader != p && j.work.Leader != j.cfg.Self {
				missing = j.ask(ctx, j.work.Leader, missing)
			}
			if len(missing) > 0 {
				j.mu.Lock()
				defer j.mu.Unlock()
				j.unshown[p] = true
			}
		})
	}
	wg.Wait()
}

// compare computes the samples again and looks for blocks that differ.
func (j *job) compare(ctx context.Context) error {
	for _, s := range j.segments {
		for _, r := range s.samples {
			if err := j.compareSample(s, r); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

// compareSample proves the first difference in a segment; more are not needed.
func (j *job) compareSample(s *segment, r slot.Range) error {
	openings := make([]audit.Opening, len(s.Offers))
	for k := range s.Offers {
		o, shown := s.contributed[k][r]
		if !shown {
			return nil // its contributor is reported
		}
		openings[k] = o
	}
	want, err := s.Recompute(r, openings)
	if f := (*audit.Fault)(nil); errors.As(err, &f) && f.Proven {
		return nil // the contributor is reported: nothing counts that it went into
	}
	if err != nil {
		return err // each opening was checked when it came
	}
	outcome, err := j.openOutcome(s, r)
	if err != nil {
		return err
	}
	got, err := s.CheckOutcome(outcome)
	if err != nil {
		return err
	}
	block, differs := s.Compare(r, want, got)
	if !differs || slices.ContainsFunc(j.found, func(f membership.FalseSegment) bool { return f.Segment == s.index }) {
		return nil
	}
	proof, err := s.ProveOutcome(block, openings, outcome)
	if err != nil {
		return err
	}
	j.cfg.Logger.Warn("an outcome is not that of its contributions", "owner", s.Owner, "slot", s.Slot,
		"elements", block)
	j.found = append(j.found, membership.FalseSegment{Segment: s.index, Proof: proof.Append(nil)})
	return nil
}

// openOutcome opens a range of the outcome that is held.
func (j *job) openOutcome(s *segment, r slot.Range) (audit.Opening, error) {
	held, err := j.cfg.Segment(s.Root)
	if err != nil {
		return audit.Opening{}, err
	}
	defer held.Close()
	hashes, err := held.Hashes()
	if err != nil {
		return audit.Opening{}, err
	}
	frame, err := held.Frame(nil, int64((r.Begin-s.Range.Begin)/uint64(j.cfg.Params.FrameElements)), hashes)
	if err != nil {
		return audit.Opening{}, err
	}
	return s.OpenOutcome(hashes, frame, r)
}

// take takes in an opening, and says whether it is of use.
func (j *job) take(q ask, o audit.Opening) bool {
	_, err := q.seg.CheckContribution(q.place, o)
	j.mu.Lock()
	defer j.mu.Unlock()
	if err == nil {
		q.seg.contributed[q.place][q.r] = o
		return true
	}
	offer := q.seg.Offers[q.place]
	if f := (*audit.Fault)(nil); errors.As(err, &f) && f.Proven {
		if proof, err := audit.ProveContribution(j.cfg.Params, offer, o); err == nil {
			j.falseOffers = append(j.falseOffers, membership.ReportFalseOffer{Offer: offer, Proof: proof.Append(nil)})
			j.unshown[offer.Peer] = true // whether or not the ledger knows who has signed the offer
			return true                  // asked once more it would show the same
		}
	}
	j.cfg.Logger.Warn("a peer shows other bytes of a contribution than it was offered", "contributor", offer.Peer,
		"err", err)
	return false
}
