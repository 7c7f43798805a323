package auditor

import (
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/p2pdiloco/p2pdiloco/allreduce/audit"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership"
	signed "github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// early has the segments of the open slot of which samples are taken as soon as their owners have
// signed them, while other segments are on their way.
type early struct {
	wg sync.WaitGroup
	mu struct {
		sync.Mutex
		open *openSlot // nil: nothing of it was signed yet
	}
}

// openSlot is what is kept until a slot is decided.
type openSlot struct {
	slot          uint64
	ctx           context.Context
	end           context.CancelFunc
	place         float64 // where in the fragment a whole frame is looked at, from 0 to 1
	segments      map[segmentKey]*earlySegment
	signed        map[slot.PeerID]int // segments of each owner
	drawn         map[reducer][]slot.Range
	spent         map[slot.Root]uint64 // elements of each contribution that are asked for early
	conversations map[slot.PeerID]*conversation
	hurry         bool // an audit waits
}

// reducer is an owner in one reduction. Its ranges there do not overlap: what is reduced stays, and
// where a contributor is lost the next range begins.
type reducer struct {
	owner slot.PeerID
	group slot.Root
}

// overlaps says whether a range overlaps one of the same reducer of which samples are drawn.
func (o *openSlot) overlaps(of reducer, r slot.Range) bool {
	return slices.ContainsFunc(o.drawn[of], func(d slot.Range) bool { return r.Begin < d.End && d.Begin < r.End })
}

// spend counts what is to be asked of a segment. It says no where that is more than early questions
// may have of a contribution: the rest is left for the segments of the draft.
func (o *openSlot) spend(s *segment, most uint64) bool {
	var samples uint64
	for _, r := range s.samples {
		samples += r.Len()
	}
	of := func(place int) uint64 {
		if place == s.frameOf {
			return samples + s.frame.Len()
		}
		return samples
	}
	for k, offer := range s.Offers {
		if o.spent[offer.Root]+of(k) > most {
			return false
		}
	}
	for k, offer := range s.Offers {
		o.spent[offer.Root] += of(k)
	}
	return true
}

// segmentKey names what an owner has signed. An owner that signs something else later gains
// nothing: samples of that are drawn anew.
type segmentKey struct {
	owner        slot.PeerID
	root, inputs slot.Root
}

func keyOf(s audit.Statement) segmentKey {
	return segmentKey{s.Owner, s.Root, signed.Inputs(s.Slot, s.Fragment, s.Usual, s.Range, s.Offers)}
}

// earlySegment is a segment whose contributors are being asked.
type earlySegment struct {
	*segment
	signed signed.Message          // by the owner
	report func(membership.Report) // what is found when the slot is decided
	waits  atomic.Int32            // for so many answers
	asked  chan struct{}           // closed when none is waited for
}

// answered counts down.
func (s *earlySegment) answered(n int) {
	if s.waits.Add(-int32(n)) == 0 {
		close(s.asked)
	}
}

// opened returns what is kept of a slot; nil if it is older than the open one. The first sample of
// a later slot opens that: this peer may be late with the state after the one before. mu is held.
func (a *Auditor) opened(slotNumber uint64) *openSlot {
	e := &a.early
	if e.mu.open != nil && e.mu.open.slot < slotNumber {
		a.end()
	}
	if e.mu.open == nil {
		o := &openSlot{
			slot: slotNumber, place: secret().Float64(), segments: map[segmentKey]*earlySegment{},
			signed: map[slot.PeerID]int{}, drawn: map[reducer][]slot.Range{}, spent: map[slot.Root]uint64{},
			conversations: map[slot.PeerID]*conversation{},
		}
		o.ctx, o.end = context.WithCancel(context.Background())
		e.mu.open = o
	}
	if e.mu.open.slot > slotNumber {
		return nil
	}
	return e.mu.open
}

// Decided ends what goes on for a slot, and those before: the contributions to another slot come.
func (a *Auditor) Decided(slotNumber uint64) {
	a.early.mu.Lock()
	if open := a.early.mu.open; open != nil && open.slot <= slotNumber {
		a.end()
	}
	a.early.mu.Unlock()
	a.served.forget()
}

// end has what was shown for the open slot compared, of segments that no audit has compared, and
// forgets it then: the record stands, but an owner that lied is to be known. mu is held.
func (a *Auditor) end() {
	open := a.early.mu.open
	a.early.mu.open = nil
	open.end()
	for _, s := range open.segments {
		if !s.compared.Load() {
			a.early.wg.Go(func() { a.compareLate(s) })
		}
	}
}

// Close ends what goes on, and waits until it has ended. The ledger asks for nothing any more.
func (a *Auditor) Close() {
	a.Decided(math.MaxUint64)
	a.early.wg.Wait()
}

// Sample draws samples of a segment that its owner has signed, and asks the contributors for them.
// It returns at once; Audit compares what has come. It reports contributors that show what proves
// that they lie. The asking ends with the slot.
func (a *Auditor) Sample(w membership.WorkSample, report func(membership.Report)) {
	s := audit.Statement{
		Owner: w.Owner, Slot: w.Slot, Fragment: w.Fragment, Usual: w.Usual, Range: w.Range, Root: w.Root,
		Offers: w.Offers,
	}
	open, seg, err := a.begin(s, w, report)
	if err != nil {
		a.cfg.Logger.Warn("a segment cannot be sampled", "owner", s.Owner, "err", err)
		return
	}
	if seg == nil {
		return
	}
	take := func(q ask, o *audit.Opening, err error) {
		defer seg.answered(1)
		if o == nil {
			seg.notShown(q.place, err)
			return
		}
		if lie, _ := a.take(q, *o); lie != nil {
			report(*lie)
		}
	}
	a.early.wg.Go(func() {
		defer seg.answered(1)
		asks, _ := seg.missing()
		for p, list := range asks {
			seg.waits.Add(int32(len(list)))
			if p == a.cfg.Self {
				for _, q := range list {
					take(q, a.openSelf(q), nil)
				}
				continue
			}
			open.with(a, p, s.Fragment).ask(list, take)
		}
	})
}

// begin draws samples of a segment, once. It returns nil where they were drawn before, and where
// the owner has signed more than it has reason to: if the draft has that, samples are drawn then.
func (a *Auditor) begin(s audit.Statement, w membership.WorkSample, report func(membership.Report)) (*openSlot,
	*earlySegment, error,
) {
	e, key := &a.early, keyOf(s)
	e.mu.Lock()
	defer e.mu.Unlock()
	open, by := a.opened(s.Slot), reducer{s.Owner, w.Group}
	if open == nil || open.segments[key] != nil || open.signed[s.Owner] >= slot.MaxRanges(max(1, len(s.Offers))) ||
		open.overlaps(by, s.Range) {
		return nil, nil, nil
	}
	drawn, err := a.draw(s, share{w.Segments, w.Quorum}, open.place, secret())
	if err != nil {
		return nil, nil, err
	}
	open.signed[s.Owner]++
	if !open.spend(drawn, a.served.most(a.cfg.Params.Fragments[s.Fragment])/earlyPart) {
		return nil, nil, nil
	}
	seg := &earlySegment{segment: drawn, signed: w.Signed, report: report, asked: make(chan struct{})}
	seg.waits.Add(1) // until all are asked
	open.segments[key] = seg
	open.drawn[by] = append(open.drawn[by], s.Range)
	return open, seg, nil
}

// sampled returns a segment with its samples: those that were drawn when its owner had signed it,
// as soon as its contributors have answered; or new ones.
func (a *Auditor) sampled(ctx context.Context, s audit.Statement, of share) (*segment, error) {
	a.early.mu.Lock()
	open, place := a.opened(s.Slot), secret().Float64()
	var seg *earlySegment
	if open != nil {
		seg, place = open.segments[keyOf(s)], open.place
	}
	a.early.mu.Unlock()
	if seg == nil {
		return a.draw(s, of, place, secret())
	}
	a.hurry(open)
	select {
	case <-seg.asked:
		return seg.segment, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// hurry limits the time of all early answers from now on: the reduction is over, an audit waits.
func (a *Auditor) hurry(o *openSlot) {
	a.early.mu.Lock()
	defer a.early.mu.Unlock()
	o.hurry = true
	for _, c := range o.conversations {
		c.hurryUp()
	}
}
