package hostile

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/internal/node/auditor"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	canonical "github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/internal/wire/wiretest"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// counted counts what is written to a stream.
type counted struct {
	canonical.Stream
	bytes atomic.Int64
}

func (c *counted) Write(b []byte) (int, error) {
	c.bytes.Add(int64(len(b)))
	return c.Stream.Write(b)
}

// noStreams refuses to open any.
type noStreams struct{}

func (noStreams) Open(context.Context, slot.PeerID) (canonical.Stream, error) {
	return nil, errors.New("out of reach")
}

// TestAGluttonIsRefused: once the audit has its answer, a glutton asks a contributor for all that
// it has offered, twice as often as it may. The contributor shows what an honest auditor may ask
// for, and then ends the stream.
func TestAGluttonIsRefused(t *testing.T) {
	const elements, frame = 5000, 1024
	params := allreduce.Params{
		Schedule: allreduce.Rotation, Codec: codec.F32, Fragments: []uint64{elements}, FrameElements: frame,
		Aggregator: allreduce.Mean,
	}
	values := make([]float32, elements)
	own, err := allreduce.Encode(params, 0, "c", values, nil)
	if err != nil {
		t.Fatal(err)
	}
	contributor, err := auditor.New(auditor.Config{
		Self: "c", Params: params, Samples: 4, Streams: noStreams{}, Timeout: time.Second,
		Logger: slog.New(slog.DiscardHandler),
		Own: func(root slot.Root) (*allreduce.Contribution, func()) {
			if root == own.Root() {
				return own, func() {}
			}
			return nil, func() {}
		},
		Planned: func(slot.PeerID, slot.Root) (o slot.Offer, ok bool) { return o, false },
		Member:  func(slot.PeerID) bool { return true }, Liars: func() int { return 1 },
		Elector: func(slot.PeerID) bool { return true }, Entrant: func(slot.PeerID) bool { return false },
		Connected: func(slot.PeerID) bool { return true },
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, passing := range []bool{false, true} {
		here, there := wiretest.Pipe(1 << 16)
		shown, ended := &counted{Stream: there}, make(chan struct{})
		go func() { defer close(ended); contributor.Serve("g", shown) }()
		did := make(chan string, 1<<10)
		g := &glutton{
			Stream: here, passing: passing, rules: chain.Rules{Fragments: []uint64{elements}, Frame: frame},
			offers: []wire.Message{
				{From: "c", Body: wire.Offer{Offer: slot.Offer{Peer: "c", Root: own.Root()}}},
				{From: "d", Body: wire.Offer{Offer: slot.Offer{Peer: "d"}}},
			},
			did: func(what string) { did <- what },
		}
		q := auditor.Request{Contributor: "c", Slot: 1, Root: own.Root(), Range: slot.Range{End: frame}}
		if err := canonical.WriteMessage(g, q.Append(nil)); err != nil {
			t.Fatal(err)
		}
		b, err := canonical.ReadMessage(g, 1<<16)
		if err != nil || len(b) == 0 {
			t.Fatalf("the audit is shown %d bytes: %v", len(b), err)
		}
		if len(did) > 0 {
			t.Error("it asks for more before the audit has its answer")
		}
		_ = g.Close()
		want := []string{asksForAll, isRefused}
		if passing {
			want = []string{asksForOthers}
		}
		for _, w := range want {
			select {
			case got := <-did:
				if got != w {
					t.Errorf("passing %v: %s, and not: %s", passing, got, w)
				}
			case <-time.After(10 * time.Second):
				t.Errorf("passing %v: this does not come about: %s", passing, w)
			}
		}
		<-ended
		contributor.Decided(math.MaxUint64)
		// what an auditor may have of a small contribution, each element with a path beside it
		if n := shown.bytes.Load(); n > 2*4*(4<<20) || !passing && n < 4*(4<<20) {
			t.Errorf("passing %v: it is shown %d bytes", passing, n)
		}
	}
}
