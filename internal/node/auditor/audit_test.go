package auditor

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/membership"
)

func init() { testutil.OneCPU() }

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

// draft is the audit of a draft with the outcome.
func (e *elector) draft() membership.WorkAudit {
	return membership.WorkAudit{
		Draft: slot.Draft{
			Kind: slot.Step, Slot: e.h.offer.Slot, Contributions: []slot.Offer{e.h.offer}, Segments: e.outcome.segments,
		},
		Owners: []slot.PeerID{"o", "o"}, Quorum: 1,
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

// Samples find a lie that a frame's bound does not show. A contributor that does not answer, or
// shows other bytes, is named, and asked again by the next audit: otherwise a run that needs its
// contribution would wait for ever.
func TestAnAudit(t *testing.T) {
	for _, lie := range []bool{true, false} {
		elects(t, lie, func(_ *house, e *elector) {
			e.cfg.Samples = elements // all of it
			e.audits(0, map[bool]int{true: 1}[lie])
			if n := e.streams.Load(); n != 1 {
				t.Errorf("%d streams to one contributor for two segments", n)
			}
		})
	}
	// one that is made again asks for nothing that was shown
	elects(t, false, func(_ *house, e *elector) {
		e.audits(0, 0)
		if e.audits(0, 0); e.streams.Load() != 1 {
			t.Errorf("two audits open %d streams", e.streams.Load())
		}
	})
	for name, c := range map[string]struct {
		change func(wire.Stream) wire.Stream
		jammed bool
	}{
		"silent":      {func(wire.Stream) wire.Stream { return nil }, false},
		"ends":        {func(s wire.Stream) wire.Stream { _ = s.Reset(); return s }, false},
		"not reached": {func(s wire.Stream) wire.Stream { return s }, true},
		"other bytes": {func(s wire.Stream) wire.Stream { return changed{s, flip} }, false},
	} {
		elects(t, false, func(h *house, e *elector) {
			honest := h.change
			h.change = c.change
			e.jammed.Store(c.jammed)
			began := time.Now()
			e.audits(1, 0)
			if took := time.Since(began); took > 2*e.cfg.Timeout {
				t.Errorf("%s: the audit took %v", name, took)
			}
			h.change = honest
			e.jammed.Store(false)
			e.audits(0, 0)
		})
	}
}

// flip changes a byte of an opening.
func flip(b []byte) []byte {
	b[len(b)/2] ^= 1
	return b
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
// no contributor for that. A leader would leave them all out, and decide alone. A lie that is found
// stays as it is.
func TestAStopBlamesNobody(t *testing.T) {
	elects(t, false, func(h *house, e *elector) {
		h.stopIn(e.Auditor)
		if got, _, err := e.Audit(h.t.Context(), e.draft()); !errors.Is(err, errStoodStill) || len(got.Unshown) > 0 {
			t.Errorf("in an audit: %v is missing, %v", got.Unshown, err)
		}
		e.audits(0, 0)
	})
	j := newAudit(nil, membership.WorkAudit{})
	j.unshown["c"], j.found = true, []membership.FalseSegment{{}}
	if j.forgive() || len(j.report().Unshown) > 0 || len(j.report().False) != 1 {
		t.Error("what was found is not reported")
	}
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
