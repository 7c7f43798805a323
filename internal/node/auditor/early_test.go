package auditor

import (
	"bytes"
	"context"
	"maps"
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
	h        *house
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
	r := &reduced{h: h, bytes: map[slot.Root][]byte{}}
	all := slices.Clone(h.own.Bytes())
	change(all)
	set := slot.NewBitmap(1)
	set.Set(0)
	const cut = 2 * frameElements
	for _, s := range []slot.Range{{End: cut}, {Begin: cut, End: elements}} {
		b := all[4*s.Begin : 4*s.End]
		root := slot.FrameRoot(slot.FrameHashes(b, 4*frameElements), 4*frameElements, uint64(len(b)))
		r.bytes[root] = b
		r.segments = append(r.segments, slot.Segment{Range: s, Contributors: set, Root: root})
	}
	return r
}

// heldSegment implements Segment.
type heldSegment []byte

func (s heldSegment) Hashes() ([]slot.Root, error) { return slot.FrameHashes(s, 4*frameElements), nil }
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
	near    atomic.Bool
	jammed  atomic.Bool // no stream can be opened in time
	streams atomic.Int32
	outcome *reduced
}

func (h *house) elector(t *testing.T, outcome *reduced) *elector {
	e := &elector{Auditor: h.auditor(t, "e"), outcome: outcome}
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
	return e.outcome.h.Open(ctx, p)
}

// sample has the elector sample the outcome's segments as its owner signs them.
func (e *elector) sample(t *testing.T) {
	t.Helper()
	for _, s := range e.outcome.segments {
		e.Sample(membership.WorkSample{
			Owner: "o", Slot: e.outcome.h.offer.Slot, Range: s.Range, Root: s.Root,
			Offers: []slot.Offer{e.outcome.h.offer}, Segments: 2, Quorum: 1,
		}, func(r membership.Report) { t.Errorf("the sampling reports %v", r) })
	}
}

// asked waits until all contributors have answered.
func (e *elector) asked() {
	e.early.mu.Lock()
	segments := slices.Collect(maps.Values(e.early.mu.open.segments))
	e.early.mu.Unlock()
	for _, s := range segments {
		<-s.asked
	}
}

// draft is the audit of a draft with the outcome.
func (e *elector) draft() membership.WorkAudit {
	r := e.outcome
	return membership.WorkAudit{
		Draft: slot.Draft{
			Kind: slot.Step, Slot: r.h.offer.Slot, Contributions: []slot.Offer{r.h.offer}, Segments: r.segments,
		},
		Owners: []slot.PeerID{"o", "o"}, Leader: "e", Quorum: 1,
	}
}

// audit has it audit a draft with the outcome.
func (e *elector) audit(t *testing.T) membership.ReportAudited {
	t.Helper()
	found, _, err := e.Audit(t.Context(), e.draft())
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// What was shown when the owner had signed counts, even if the contributor is gone when the draft
// comes. Without it the contributor is missing.
func TestSamplesBeforeTheDraftCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		e := h.elector(t, h.reduce(false))
		e.sample(t)
		synctest.Wait()
		e.near.Store(false)
		if got := e.audit(t); len(got.Unshown) > 0 || len(got.False) > 0 {
			t.Errorf("an outcome that was sampled early: %v is missing, %d lies", got.Unshown, len(got.False))
		}
		if n := e.streams.Load(); n > 2 {
			t.Errorf("%d streams to one contributor for two segments", n)
		}
		e.Decided(e.outcome.h.offer.Slot)
		if got := e.audit(t); !slices.Equal(got.Unshown, []slot.PeerID{"c"}) {
			t.Errorf("without early samples %v is missing; want the contributor", got.Unshown)
		}
		e.Close()
	})
}

// Samples count as well that are taken after an audit in the same slot: a leader tries again.
func TestSamplesAfterAnAuditCount(t *testing.T) {
	h := newHouse(t)
	e := h.elector(t, h.reduce(true))
	ctx, end := context.WithCancel(t.Context())
	if _, _, err := e.Audit(ctx, e.draft()); err != nil {
		t.Fatal(err)
	}
	end()
	e.outcome = h.reduce(false)
	e.sample(t)
	e.asked()
	e.near.Store(false)
	if got := e.audit(t); len(got.Unshown) > 0 || len(got.False) > 0 {
		t.Errorf("%v is missing, %d lies", got.Unshown, len(got.False))
	}
	e.Close()
}

// A slot may be decided before an elector has compared its samples: others were faster, or the
// record came with a QC. The lie is proven all the same, and only where there is one.
func TestALieIsProvenAfterTheSlot(t *testing.T) {
	for _, lie := range []bool{false, true} {
		h := newHouse(t)
		e := h.elector(t, h.reduce(lie))
		var found []membership.Report
		for i, s := range e.outcome.segments {
			e.Sample(membership.WorkSample{
				Signed: signed.Message{From: "o", Incarnation: slot.Incarnation(i)},
				Owner:  "o", Slot: h.offer.Slot, Range: s.Range, Root: s.Root,
				Offers: []slot.Offer{h.offer}, Segments: 2, Quorum: 1,
			}, func(r membership.Report) { found = append(found, r) })
		}
		e.asked()
		e.Close()
		if !lie {
			if len(found) > 0 {
				t.Errorf("an honest owner: %v", found)
			}
			continue
		}
		if len(found) != 1 {
			t.Fatalf("%d reports of one lie", len(found))
		}
		r := found[0].(membership.ReportFalseStatement)
		s := signed.Segment{Segment: e.outcome.segments[1]}
		s.Inputs = signed.Inputs(h.offer.Slot, 0, 0, s.Range, []slot.Offer{h.offer})
		if err := (Checker{e.cfg.Params}).FalseOutcome("o", s, r.Proof); err != nil || r.Signed.Incarnation != 1 {
			t.Errorf("the proof against segment %d: %v", r.Signed.Incarnation, err)
		}
	}
}

// A peer that is late with the state after a slot has been asked for samples of the next one
// already: the end of the old slot leaves them.
func TestALatePeerKeepsTheNextSlotsSamples(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		e := h.elector(t, h.reduce(false))
		old := membership.WorkSample{
			Owner: "o", Slot: h.offer.Slot - 1, Range: e.outcome.segments[0].Range, Offers: []slot.Offer{h.offer},
			Segments: 2, Quorum: 1,
		}
		e.Sample(old, func(membership.Report) {})
		e.sample(t)
		e.Sample(old, func(membership.Report) { t.Error("a sample of the old slot is taken") })
		e.Decided(h.offer.Slot - 1)
		synctest.Wait()
		e.near.Store(false)
		if got := e.audit(t); len(got.Unshown) > 0 {
			t.Errorf("%v is missing", got.Unshown)
		}
		e.Close()
	})
}

// Where an audit has compared the samples, nothing is compared again.
func TestWhatWasAuditedIsNotComparedAgain(t *testing.T) {
	h := newHouse(t)
	e := h.elector(t, h.reduce(true))
	e.sample(t) // it may report nothing
	e.asked()
	if got := e.audit(t); len(got.False) != 1 {
		t.Fatalf("%d lies", len(got.False))
	}
	e.Close()
}

// Samples that were taken early find a lie.
func TestEarlySamplesFindLies(t *testing.T) {
	h := newHouse(t)
	e := h.elector(t, h.reduce(true))
	e.cfg.Samples = elements // all of it
	e.sample(t)
	if got := e.audit(t); len(got.False) != 1 || got.False[0].Segment != 1 {
		t.Errorf("found %v; want a lie in the second segment", got.False)
	}
	e.Close()
}

// An owner that signs one segment for the auditors and another for the draft gains nothing.
func TestAnotherSegmentIsSampledAnew(t *testing.T) {
	h := newHouse(t)
	e := h.elector(t, h.reduce(false))
	e.cfg.Samples = elements
	e.sample(t)
	e.asked()
	e.outcome = h.reduce(true)
	if got := e.audit(t); len(got.False) != 1 {
		t.Errorf("found %v; want a lie", got.False)
	}
	e.Close()
}

// A contributor that lets an early question wait is not given the same time again, and one that
// ends the stream is asked again.
func TestContributorsThatDoNotAnswerEarly(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(wire.Stream) wire.Stream
		missing bool
	}{
		"silent": {func(wire.Stream) wire.Stream { return nil }, true},
		"ends":   {func(s wire.Stream) wire.Stream { _ = s.Reset(); return s }, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := newHouse(t)
			e := h.elector(t, h.reduce(false))
			h.change = c.change
			e.sample(t)
			synctest.Wait()
			h.change = func(s wire.Stream) wire.Stream { return s }
			began := time.Now()
			if got := e.audit(t); (len(got.Unshown) > 0) != c.missing {
				t.Errorf("%s: %v is missing", name, got.Unshown)
			}
			if took := time.Since(began); took > 2*e.cfg.Timeout {
				t.Errorf("%s: the audit took %v", name, took)
			}
			e.Close()
		})
	}
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
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		e := h.elector(t, h.reduce(false))
		h.change = func(s wire.Stream) wire.Stream { return &behindBulk{Stream: s, wait: 4 * e.cfg.Timeout} }
		e.sample(t)
		time.Sleep(5 * e.cfg.Timeout)
		e.near.Store(false)
		if got := e.audit(t); len(got.Unshown) > 0 || len(got.False) > 0 {
			t.Errorf("%v is missing, %d lies", got.Unshown, len(got.False))
		}
		e.Close()
	})
}

// A contributor that could not be asked early, because no stream opened in time, is asked later.
func TestContributorsThatWereNotReachedEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		e := h.elector(t, h.reduce(false))
		e.jammed.Store(true)
		e.sample(t)
		e.asked()
		e.jammed.Store(false)
		if got := e.audit(t); len(got.Unshown) > 0 || len(got.False) > 0 {
			t.Errorf("%v is missing, %d lies", got.Unshown, len(got.False))
		}
		e.Close()
	})
}
