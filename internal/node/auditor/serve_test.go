package auditor

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
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
	here, there := testutil.Pipe(1 << 16)
	if served := h.change(there); served != nil {
		go h.contributor.Serve("l", served)
	}
	return here, nil
}

// request is for the first sample of the contribution.
func (h *house) request() Request {
	return Request{Slot: 3, Root: h.offer.Root, Range: slot.Range{End: frameElements}}
}

type changed struct {
	wire.Stream
	change func(b []byte) []byte
}

func (c changed) Write(b []byte) (int, error) {
	_, err := c.Stream.Write(c.change(append([]byte(nil), b...)))
	return len(b), err
}
