package auditor

import (
	"math"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership"
)

// An owner cannot have auditors keep more segments than an outcome may have of it.
func TestAnOwnerCannotHaveManySegmentsSampled(t *testing.T) {
	h := newHouse(t)
	e := h.elector(t, h.reduce(false))
	s := e.outcome.segments[0]
	for i := range slot.MaxSegments + 10 {
		s.Root[0], s.Root[1] = byte(i), byte(i>>8)
		o := h.offer
		o.Root = s.Root // each has its own bound
		e.Sample(membership.WorkSample{
			Owner: "o", Group: s.Root, Slot: h.offer.Slot, Range: s.Range, Root: s.Root, Offers: []slot.Offer{o},
			Segments: 1, Quorum: 1,
		}, func(membership.Report) {})
	}
	e.early.mu.Lock()
	n := len(e.early.mu.open.segments)
	e.early.mu.Unlock()
	if n > slot.MaxSegments {
		t.Errorf("%d segments of one owner are kept", n)
	}
	e.Close()
}

// sampleAs has the elector sample a range that "o" has signed in some reduction, with a root that
// is like no other.
func (e *elector) sampleAs(group byte, r slot.Range, number byte) {
	offer := e.outcome.h.offer
	e.Sample(membership.WorkSample{
		Owner: "o", Group: slot.Root{group}, Slot: offer.Slot, Range: r, Root: slot.Root{1, number},
		Offers: []slot.Offer{offer}, Segments: 2, Quorum: 1,
	}, func(membership.Report) {})
}

// An owner that signs its range again and again, cut otherwise, has it sampled once in a reduction.
// Each time would cost the auditors some of what contributors show them.
func TestOverlappingSegmentsAreNotSampledEarly(t *testing.T) {
	h := newHouse(t)
	e := h.elector(t, h.reduce(false))
	first := slot.Range{End: 2 * frameElements}
	for i, c := range []struct {
		group byte
		r     slot.Range
		kept  int
	}{
		{0, first, 1},
		{0, first, 1},
		{0, slot.Range{End: elements}, 1},
		{0, slot.Range{Begin: frameElements, End: 3 * frameElements}, 1},
		{0, slot.Range{Begin: 2 * frameElements, End: 3 * frameElements}, 2}, // as after a loss
		{1, slot.Range{End: elements}, 3},                                    // all is reduced anew
		{1, first, 3},
	} {
		e.sampleAs(c.group, c.r, byte(i))
		e.early.mu.Lock()
		n := len(e.early.mu.open.segments)
		e.early.mu.Unlock()
		if n != c.kept {
			t.Errorf("after segment %d of %v samples of %d are kept; want %d", i, c.r, n, c.kept)
		}
	}
	e.Close()
}

// Whatever owners sign before the draft, contributors show as much again of its segments. Without
// that nobody could audit it, and each leader would leave out all contributors.
func TestTheDraftHasItsPartOfWhatIsShown(t *testing.T) {
	h := newHouse(t)
	e := h.elector(t, h.reduce(true))
	e.cfg.Samples, e.served.all, h.contributor.served.all = math.MaxInt, true, true
	for i := range byte(3 * quotaAll) {
		e.sampleAs(i, slot.Range{End: elements}, i)
	}
	e.asked()
	if got := e.audit(t); len(got.Unshown) > 0 || len(got.False) != 1 {
		t.Errorf("%v is missing, %d lies are found; want the one of the draft", got.Unshown, len(got.False))
	}
	e.Close()
}
