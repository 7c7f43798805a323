package auditor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/internal/wire/wiretest"
)

const elements, frameElements = 5000, 1024

func testParams() allreduce.Params {
	return allreduce.Params{
		Schedule: allreduce.Rotation, Codec: codec.F32, Fragments: []uint64{elements}, FrameElements: frameElements,
		Aggregator: allreduce.TrimmedMean, TrimPermille: 200,
	}
}

// house has the contributor "c", whose streams change may spoil.
type house struct {
	t           testing.TB
	contributor *Auditor
	offer       slot.Offer
	own         *allreduce.Contribution
	change      func(wire.Stream) wire.Stream
}

func newHouse(t testing.TB) *house {
	h := &house{t: t, change: func(s wire.Stream) wire.Stream { return s }}
	values := make(allreduce.Vector, elements)
	for i := range values {
		values[i] = float32(i % 11)
	}
	var err error
	if h.own, err = allreduce.Encode(testParams(), 0, "c", values, nil); err != nil {
		t.Fatal(err)
	}
	h.offer = slot.Offer{Peer: "c", Slot: 3, Seq: 1, Base: 2, Weight: 5, Root: h.own.Root(), NormSq: h.own.NormSq()}
	h.contributor = h.auditor("c")
	return h
}

func (h *house) auditor(self slot.PeerID) *Auditor {
	a, err := New(Config{
		Self: self, Params: testParams(), Samples: 4, Streams: h, Timeout: time.Second,
		Logger: slog.New(slog.DiscardHandler),
		Own: func(root slot.Root) (*allreduce.Contribution, func()) {
			if self == "c" && root == h.own.Root() {
				return h.own, func() {}
			}
			return nil, func() {}
		},
		Member:    func(slot.PeerID) bool { return true },
		Elector:   func(p slot.PeerID) bool { return p == "l" || strings.HasPrefix(string(p), "e") },
		Connected: func(slot.PeerID) bool { return true },
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return a
}

// Open opens a stream of the leader to the contributor, which does not serve it if change returns
// nil.
func (h *house) Open(context.Context, slot.PeerID) (wire.Stream, error) {
	here, there := wiretest.Pipe(1 << 16)
	if served := h.change(there); served != nil {
		go h.contributor.Serve("l", served)
	}
	return here, nil
}

// request is for the first sample of the contribution.
func (h *house) request() Request {
	return Request{Contributor: "c", Slot: 3, Root: h.offer.Root, Range: slot.Range{End: frameElements}}
}

// shown is what an auditor shows a peer; nil: nothing.
func (h *house) shown(a *Auditor, from slot.PeerID, q Request) []byte {
	b, err := a.answer(from, q, nil)
	if err != nil && !errors.Is(err, errQuota) {
		h.t.Fatal(err)
	}
	return b
}

type changed struct {
	wire.Stream
	change func(b []byte) []byte
}

func (c changed) Write(b []byte) (int, error) {
	_, err := c.Stream.Write(c.change(append([]byte(nil), b...)))
	return len(b), err
}

// until is how often a peer may ask the same before it is shown nothing.
func (h *house) until(a *Auditor, from slot.PeerID, q Request) (times int) {
	for len(h.shown(a, from, q)) > 0 {
		times++
	}
	return times
}

// A contributor shows one auditor no more of a contribution than an honest one may ask for, and
// ends its stream. Others are shown theirs, and in the next slot all begins anew.
func TestAnAuditorThatAsksForTooMuch(t *testing.T) {
	for _, all := range []bool{false, true} {
		most := uint64(quotaLeast)
		if all {
			most = quotaAll * elements
		}
		h := newHouse(t)
		h.contributor.served.all = all
		here, there := wiretest.Pipe(1 << 16)
		ended := make(chan struct{})
		go func() { defer close(ended); h.contributor.Serve("e1", there) }()
		shown, q := uint64(0), h.request()
		for ; shown+q.Range.Len() <= most; shown += q.Range.Len() {
			if b, err := asked(here, q); err != nil || len(b) == 0 {
				t.Fatalf("after %d elements it is shown %d bytes: %v", shown, len(b), err)
			}
		}
		if b, err := asked(here, q); !errors.Is(err, wiretest.ErrReset) {
			t.Fatalf("after %d elements it is shown %d bytes more: %v", shown, len(b), err)
		}
		<-ended
		again, other := h.shown(h.contributor, "e1", q), h.shown(h.contributor, "e2", q)
		h.contributor.Decided()
		if next := h.shown(h.contributor, "e1", q); len(again) > 0 || len(other) == 0 || len(next) == 0 {
			t.Errorf("all %v: again %d bytes, another %d, in the next slot %d", all, len(again), len(other), len(next))
		}
	}
}

// A part of a sample costs its auditor the whole one, so that it cannot have a message and a path
// made for each 1 KiB. Samples and frames cost what they have, whatever is cut short.
func TestPartsOfSamplesCostWholeOnes(t *testing.T) {
	h := newHouse(t)
	q := h.request()
	q.Range.End /= 4
	if n := h.until(h.contributor, "e1", q); n != quotaLeast/frameElements {
		t.Errorf("it is shown a part of each of %d samples", n)
	}
}

// All members without a seat together are shown what one auditor is: they have nothing to audit,
// but for one that the draft gives a seat, which this peer may not know of. Names of contributions
// that a peer makes up take no room from others.
func TestMembersWithoutASeatShareAQuota(t *testing.T) {
	h := newHouse(t)
	shown := 0
	for i := range 2 * quotaLeast / frameElements {
		shown += min(1, len(h.shown(h.contributor, slot.PeerID(fmt.Sprint("m", i%7)), h.request())))
	}
	if shown != quotaLeast/frameElements {
		t.Errorf("seven members are shown %d frames, and not %d", shown, quotaLeast/frameElements)
	}
	q := h.request()
	for i := range quotaKeys + 1 {
		q.Root[0], q.Root[1], q.Root[2] = byte(i), byte(i>>8), byte(i>>16)
		h.shown(h.contributor, "a", q)
	}
	if b := h.shown(h.contributor, "e1", h.request()); len(b) == 0 {
		t.Error("an elector is shown nothing")
	}
}

// asked asks one question on a stream.
func asked(s wire.Stream, q Request) ([]byte, error) {
	if err := wire.WriteMessage(s, q.Append(nil)); err != nil {
		return nil, err
	}
	return wire.ReadMessage(s, 1<<16)
}
