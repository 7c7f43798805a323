package auditor

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/p2pdiloco/p2pdiloco/allreduce/audit"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership"
)

// job is one audit.
type job struct {
	*Auditor
	work        membership.WorkAudit
	segments    []*segment
	places      []int // of the segments in the draft
	unshown     map[slot.PeerID]bool
	found       []membership.FalseSegment
	falseOffers []membership.Report
	mu          sync.Mutex // guards unshown and falseOffers while answers come
}

func newAudit(a *Auditor, w membership.WorkAudit) *job {
	return &job{Auditor: a, work: w, unshown: map[slot.PeerID]bool{}}
}

func (j *job) report() membership.ReportAudited {
	return membership.ReportAudited{
		Ref: j.work.Draft.Ref, Record: j.work.Record, False: j.found, Unshown: slices.Sorted(maps.Keys(j.unshown)),
	}
}

// collect draws samples of all segments but the own ones, which are not looked at.
func (j *job) collect() error {
	d, place := j.work.Draft, secret().Float64()
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
		seg, err := j.draw(audit.Statement{
			Owner: j.work.Owners[i], Slot: d.Slot, Fragment: d.Fragment, Usual: d.Usual, Range: s.Range, Root: s.Root,
			Offers: offers,
		}, share{len(d.Segments), j.work.Quorum}, place, secret())
		if err != nil {
			return err
		}
		j.segments, j.places = append(j.segments, seg), append(j.places, i)
	}
	return nil
}

// gather asks all contributors at once for what they have not shown yet, but for those that have
// left a question of this audit unanswered. The next audit asks all.
func (j *job) gather(ctx context.Context) {
	asks := map[slot.PeerID][]ask{}
	for _, s := range j.segments {
		for p, list := range s.listUnshown() {
			asks[p] = append(asks[p], list...)
		}
	}
	maps.DeleteFunc(asks, func(p slot.PeerID, _ []ask) bool { return j.unshown[p] })
	var wg sync.WaitGroup
	for p, list := range asks {
		wg.Go(func() {
			if len(j.ask(ctx, p, list)) > 0 {
				j.mu.Lock()
				defer j.mu.Unlock()
				j.unshown[p] = true
			}
		})
	}
	wg.Wait()
}

// forgive blames nobody for what was not shown, and says whether nothing is known then: no false
// segment was found either.
func (j *job) forgive() bool {
	missing := len(j.unshown) > 0
	clear(j.unshown)
	return missing && len(j.found) == 0
}

// compare computes the samples again and looks for blocks that differ.
func (j *job) compare(ctx context.Context) error {
	for k, s := range j.segments {
		for _, r := range s.samples {
			if err := j.compareSample(s, j.places[k], r); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

// compareSample proves the first difference in the draft's segment at a place; more are not needed.
func (j *job) compareSample(s *segment, place int, r slot.Range) error {
	if slices.ContainsFunc(j.found, func(f membership.FalseSegment) bool { return f.Segment == place }) {
		return nil
	}
	proof, err := j.difference(s, r)
	if proof != nil {
		j.found = append(j.found, membership.FalseSegment{Segment: place, Proof: proof})
	}
	return err
}

// noteOpening takes in an opening, and says whether it is of use.
func (j *job) noteOpening(q ask, o audit.Opening) bool {
	lie, err := j.checkOpening(q, o)
	if lie == nil {
		return err == nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.falseOffers = append(j.falseOffers, *lie)
	j.unshown[lie.Offer.Peer] = true // whether or not the ledger knows who has signed the offer
	return true                      // asked once more it would show the same
}
