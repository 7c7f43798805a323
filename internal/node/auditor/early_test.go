package auditor

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	_ "github.com/p2pdiloco/p2pdiloco/internal/onecpu" // see there
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/membership"
	signed "github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// reduced is the outcome of "c" alone, in two segments of which "o" is the owner.
type reduced struct {
	segments []slot.Segment
	bytes    map[slot.Root][]byte
}

// reduce changes one value of the second segment where there is a lie.
func (h *house) reduce(lie bool) *reduced {
	return h.reduceBut(func(all []byte) {
		if lie {
			all[len(all)-1] ^= 1
		}
	})
}

// reduceBut has the owner change what it states.
func (h *house) reduceBut(change func(all []byte)) *reduced {
	r := &reduced{bytes: map[slot.Root][]byte{}}
	all := slices.Clone(h.own.Bytes())
	change(all)
	set := slot.NewBitmap(1)
	set.Set(0)
	const cut = 2 * frameElements
	for _, s := range []slot.Range{{End: cut}, {Begin: cut, End: elements}} {
		b := all[4*s.Begin : 4*s.End]
		root := slot.Cut(b, 4*frameElements).Root(4 * frameElements)
		r.bytes[root] = b
		r.segments = append(r.segments, slot.Segment{Range: s, Contributors: set, Root: root})
	}
	return r
}

// heldSegment implements Segment.
type heldSegment []byte

func (s heldSegment) Hashes() ([]slot.Root, error) { return slot.Cut(s, 4*frameElements).Hashes, nil }
func (s heldSegment) Close() error                 { return nil }

func (s heldSegment) Frame(dst []byte, k int64, _ []slot.Root) ([]byte, error) {
	return append(dst, s[k*4*frameElements:min((k+1)*4*frameElements, int64(len(s)))]...), nil
}

func (s heldSegment) ReadAt(dst []byte, at int64) (int, error) {
	return bytes.NewReader(s).ReadAt(dst, at)
}

// elector is an auditor that holds an outcome. The contributor is in reach while near.
type elector struct {
	*Auditor
	h       *house
	near    atomic.Bool
	jammed  atomic.Bool // no stream can be opened in time
	streams atomic.Int32
	outcome *reduced
}

// elects runs f with an elector that holds the outcome, with a lie or without, and ends it.
func elects(t *testing.T, lie bool, f func(h *house, e *elector)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		e := h.elector(h.reduce(lie))
		f(h, e)
		e.Close()
	})
}

func (h *house) elector(outcome *reduced) *elector {
	e := &elector{Auditor: h.auditor("e"), h: h, outcome: outcome}
	e.near.Store(true)
	e.cfg.Streams = e
	e.cfg.Connected = func(slot.PeerID) bool { return e.near.Load() }
	e.cfg.Segment = func(root slot.Root) (Segment, error) { return heldSegment(e.outcome.bytes[root]), nil }
	e.cfg.Leaves = func(slot.Offer) ([]slot.FrameLeaf, bool) { return nil, false }
	return e
}

func (e *elector) Open(ctx context.Context, p slot.PeerID) (wire.Stream, error) {
	e.streams.Add(1)
	if e.jammed.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return e.h.Open(ctx, p)
}

// signed has the elector sample a range that "o" has signed in some reduction.
func (e *elector) signed(group byte, r slot.Range, root slot.Root, report func(membership.Report)) {
	e.Sample(membership.WorkSample{
		Owner: "o", Group: slot.Root{group}, Slot: e.h.offer.Slot, Range: r, Root: root,
		Offers: []slot.Offer{e.h.offer}, Segments: 2, Quorum: 1,
	}, report)
}

// sample has the elector sample the outcome's segments as their owner signs them. It waits for what
// comes of that at once.
func (e *elector) sample() {
	for _, s := range e.outcome.segments {
		e.signed(0, s.Range, s.Root, func(r membership.Report) { e.h.t.Errorf("the sampling reports %v", r) })
	}
	synctest.Wait()
}

// kept is of how many segments there are samples.
func (e *elector) kept() int {
	e.early.mu.Lock()
	defer e.early.mu.Unlock()
	return len(e.early.mu.open.segments)
}

// draft is the audit of a draft with the outcome.
func (e *elector) draft() membership.WorkAudit {
	return membership.WorkAudit{
		Draft: slot.Draft{
			Kind: slot.Step, Slot: e.h.offer.Slot, Contributions: []slot.Offer{e.h.offer}, Segments: e.outcome.segments,
		},
		Owners: []slot.PeerID{"o", "o"}, Leader: "e", Quorum: 1,
	}
}

// audits has it audit a draft with the outcome, and fails unless so many contributors are missing,
// and so many segments false: the second, if it is one.
func (e *elector) audits(missing, lies int) {
	e.h.t.Helper()
	got, _, err := e.Audit(e.h.t.Context(), e.draft())
	if err != nil || len(got.Unshown) != missing || len(got.False) != lies || lies == 1 && got.False[0].Segment != 1 {
		e.h.t.Errorf("%v is missing, lies are %v: %v; want %d, %d", got.Unshown, got.False, err, missing, lies)
	}
}

// What was shown when the owner had signed counts, even if the contributor is gone when the draft
// comes. Without it the contributor is missing.
func TestSamplesBeforeTheDraftCount(t *testing.T) {
	elects(t, false, func(_ *house, e *elector) {
		e.sample()
		e.near.Store(false)
		e.audits(0, 0)
		if n := e.streams.Load(); n > 2 {
			t.Errorf("%d streams to one contributor for two segments", n)
		}
		e.Decided(e.h.offer.Slot)
		e.audits(1, 0)
	})
	// So do those that are taken after an audit in the same slot: a leader tries again.
	elects(t, true, func(h *house, e *elector) {
		ctx, end := context.WithCancel(h.t.Context())
		if _, _, err := e.Audit(ctx, e.draft()); err != nil {
			t.Fatal(err)
		}
		end()
		e.outcome = h.reduce(false)
		e.sample()
		e.near.Store(false)
		e.audits(0, 0)
	})
	// A peer that is late with the state after a slot has been asked for samples of the next one
	// already: the end of the old slot leaves them.
	elects(t, false, func(h *house, e *elector) {
		old := membership.WorkSample{
			Owner: "o", Slot: h.offer.Slot - 1, Range: e.outcome.segments[0].Range, Offers: []slot.Offer{h.offer},
			Segments: 2, Quorum: 1,
		}
		e.Sample(old, func(membership.Report) {})
		e.sample()
		e.Sample(old, func(membership.Report) { t.Error("a sample of the old slot is taken") })
		e.Decided(h.offer.Slot - 1)
		synctest.Wait()
		e.near.Store(false)
		e.audits(0, 0)
	})
}

// Samples that were taken early find a lie, and what an audit has compared is not compared again.
// An owner that signs one segment for the auditors and another for the draft gains nothing.
func TestEarlySamplesFindLies(t *testing.T) {
	for _, early := range []bool{true, false} {
		elects(t, early, func(h *house, e *elector) {
			e.cfg.Samples = elements // all of it
			e.sample()               // it reports nothing
			e.outcome = h.reduce(true)
			e.audits(0, 1)
		})
	}
}

// A slot may be decided before an elector has compared its samples: others were faster, or the
// record came with a QC. The lie is proven all the same, and only where there is one.
func TestALieIsProvenAfterTheSlot(t *testing.T) {
	for _, lie := range []bool{false, true} {
		var found []membership.Report
		elects(t, lie, func(h *house, e *elector) {
			for i, s := range e.outcome.segments {
				e.Sample(membership.WorkSample{
					Signed: signed.Message{From: "o", Incarnation: slot.Incarnation(i)},
					Owner:  "o", Slot: h.offer.Slot, Range: s.Range, Root: s.Root,
					Offers: []slot.Offer{h.offer}, Segments: 2, Quorum: 1,
				}, func(r membership.Report) { found = append(found, r) })
			}
			synctest.Wait()
			e.Close()
			if want := map[bool]int{true: 1}[lie]; len(found) != want {
				t.Fatalf("a lie %v: %v", lie, found)
			}
			if !lie {
				return
			}
			r := found[0].(membership.ReportFalseStatement)
			s := signed.Segment{Segment: e.outcome.segments[1]}
			s.Inputs = signed.Inputs(h.offer.Slot, 0, 0, s.Range, []slot.Offer{h.offer})
			if err := (Checker{e.cfg.Params}).FalseOutcome("o", s, r.Proof); err != nil || r.Signed.Incarnation != 1 {
				t.Errorf("the proof against segment %d: %v", r.Signed.Incarnation, err)
			}
		})
	}
}

// silent is a contributor that leaves open streams unanswered.
func silent(wire.Stream) wire.Stream { return nil }

func speaking(s wire.Stream) wire.Stream { return s }

// A contributor that lets an early question wait is not given the same time again, and one that
// ends the stream, or could not be asked, because no stream opened in time, is asked again. One
// that was too slow for one audit is asked by the next one: otherwise a run that needs its
// contribution would wait for ever.
func TestContributorsThatDoNotAnswerEarly(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(wire.Stream) wire.Stream
		jammed  bool
		missing int
	}{
		"silent":      {silent, false, 1},
		"ends":        {func(s wire.Stream) wire.Stream { _ = s.Reset(); return s }, false, 0},
		"not reached": {speaking, true, 0},
		"other bytes": {func(s wire.Stream) wire.Stream { return changed{s, flip} }, false, 0},
	} {
		elects(t, false, func(h *house, e *elector) {
			h.change = c.change
			e.jammed.Store(c.jammed)
			e.sample()
			if c.jammed {
				time.Sleep(2 * e.cfg.Timeout)
			}
			h.change = speaking
			e.jammed.Store(false)
			began := time.Now()
			e.audits(c.missing, 0)
			if took := time.Since(began); took > 2*e.cfg.Timeout {
				t.Errorf("%s: the audit took %v", name, took)
			}
			e.audits(0, 0)
		})
	}
}

// flip changes a byte of an opening.
func flip(b []byte) []byte {
	b[len(b)/2] ^= 1
	return b
}

// behindBulk is a stream of a slow link: the first question reaches the contributor after a while.
type behindBulk struct {
	wire.Stream
	wait time.Duration
	once sync.Once
}

func (s *behindBulk) Read(b []byte) (int, error) {
	s.once.Do(func() { time.Sleep(s.wait) })
	return s.Stream.Read(b)
}

// Answers that are behind contributions on a slow link count, however long the reduction takes.
func TestAnswersThatComeLateInAReductionCount(t *testing.T) {
	elects(t, false, func(h *house, e *elector) {
		h.change = func(s wire.Stream) wire.Stream { return &behindBulk{Stream: s, wait: 4 * e.cfg.Timeout} }
		e.sample()
		time.Sleep(5 * e.cfg.Timeout)
		e.near.Store(false)
		e.audits(0, 0)
	})
}

// stopIn has an auditor's process stand still for a minute, after a while in which the contributor
// is silent.
func (h *house) stopIn(a *Auditor) {
	var stood atomic.Int64
	a.now = func() time.Time { return time.Now().Add(time.Duration(stood.Load())) }
	h.change = func(s wire.Stream) wire.Stream {
		if stood.Load() > 0 {
			return s
		}
		return nil
	}
	time.AfterFunc(a.cfg.Timeout/2, func() { stood.Store(int64(time.Minute)) })
}

// A process that was stopped while it waited finds all deadlines passed when it goes on. It blames
// no contributor for that, be it as an auditor, before the draft or after, or as a leader that
// passes on. A leader would leave them all out, and decide alone. A lie that is found stays as it
// is.
func TestAStopBlamesNobody(t *testing.T) {
	elects(t, false, func(h *house, e *elector) {
		h.stopIn(e.Auditor)
		if got, _, err := e.Audit(h.t.Context(), e.draft()); !errors.Is(err, errStoodStill) || len(got.Unshown) > 0 {
			t.Errorf("in an audit: %v is missing, %v", got.Unshown, err)
		}
		e.audits(0, 0)
	})
	elects(t, false, func(h *house, e *elector) {
		h.stopIn(e.Auditor)
		e.sample()
		e.audits(0, 0)
	})
	elects(t, false, func(h *house, _ *elector) {
		h.stopIn(h.leader)
		if h.passes("e1", h.request()) {
			t.Error("a silent contributor's bytes are passed on")
		}
		h.blamed(0, "a stop")
		h.change = silent
		h.passes("e2", h.request())
		h.blamed(1, "without a stop")
	})
	j := newAudit(nil, membership.WorkAudit{})
	j.unshown["c"], j.found = true, []membership.FalseSegment{{}}
	if j.forgive() || len(j.report().Unshown) > 0 || len(j.report().False) != 1 {
		t.Error("what was found is not reported")
	}
}

// An owner that signs its range again and again, cut otherwise, has it sampled once in a reduction.
// Each time would cost the auditors some of what contributors show them. Nor can it have them keep
// more segments than an outcome may have of it.
func TestOverlappingSegmentsAreNotSampledEarly(t *testing.T) {
	none := func(membership.Report) {}
	elects(t, false, func(_ *house, e *elector) {
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
			{0, slot.Range{Begin: 2 * frameElements, End: 3 * frameElements}, 2}, // a loss
			{1, slot.Range{End: elements}, 3},                                    // all anew
			{1, first, 3},
		} {
			if e.signed(c.group, c.r, slot.Root{1, byte(i)}, none); e.kept() != c.kept {
				t.Errorf("after segment %d of %v samples of %d are kept; want %d", i, c.r, e.kept(), c.kept)
			}
		}
	})
	elects(t, false, func(h *house, e *elector) {
		s := e.outcome.segments[0]
		for i := range slot.MaxSegments + 10 {
			s.Root[0], s.Root[1] = byte(i), byte(i>>8)
			h.offer.Root = s.Root // each has its own bound
			e.Sample(membership.WorkSample{
				Owner: "o", Group: s.Root, Slot: h.offer.Slot, Range: s.Range, Root: s.Root,
				Offers: []slot.Offer{h.offer}, Segments: 1, Quorum: 1,
			}, none)
		}
		if n := e.kept(); n > slot.MaxSegments {
			t.Errorf("%d segments of one owner are kept", n)
		}
	})
}

// Whatever owners sign before the draft, contributors show as much again of its segments. Without
// that nobody could audit it, and each leader would leave out all contributors.
func TestTheDraftHasItsPartOfWhatIsShown(t *testing.T) {
	elects(t, true, func(h *house, e *elector) {
		e.cfg.Samples, e.served.all, h.contributor.served.all = math.MaxInt, true, true
		for i := range byte(3 * quotaAll) {
			e.signed(i, slot.Range{End: elements}, slot.Root{1, i}, func(membership.Report) {})
		}
		synctest.Wait()
		e.audits(0, 1)
	})
}

// No sample is drawn here, so only the bound leads to one: a frame is longer than the norms that
// the contributors have committed to allow, or has no values. An elector that does not know
// these norms finds only what has no values, and an honest frame is not looked at.
func TestAFrameAboveItsBoundIsSampled(t *testing.T) {
	const frame = 3 // of 5; the first one of the second segment is 2
	nan := float32(math.NaN())
	for _, c := range []struct {
		value float32 // instead of an honest one
		known bool    // what the contributor has committed to
		lies  int
	}{{0, true, 0}, {1e4, true, 1}, {nan, true, 1}, {1e4, false, 0}, {nan, false, 1}} {
		elects(t, false, func(h *house, e *elector) {
			e.outcome = h.reduceBut(func(all []byte) {
				binary.LittleEndian.PutUint32(all[4*(frame*frameElements+7):], math.Float32bits(c.value))
			})
			e.cfg.Samples = 0
			e.cfg.Leaves = func(slot.Offer) ([]slot.FrameLeaf, bool) { return h.own.Leaves(), c.known }
			e.audits(0, c.lies)
		})
	}
}
