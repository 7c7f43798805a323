package hops

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"github.com/p2pdiloco/p2pdiloco/internal/sim"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/internal/wire/wiretest"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/peers"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/tasks"
)

const exchange = "/p2pdiloco/exchange/1.0.0"

// counted counts the legs that are open, and those that were reset.
type counted struct {
	wire.Stream
	n *nodes
}

func (s counted) Close() error {
	s.n.closed.Add(1)
	return s.Stream.Close()
}

func (s counted) Reset() error {
	s.n.resets.Add(1)
	return s.Stream.Reset()
}

// nodes are an origin, a forwarder and a target.
type nodes struct {
	all            []*Hops
	opened         atomic.Int32 // legs
	closed, resets atomic.Int32 // ends of them, more than once perhaps
}

// newNodes connects all but the origin and the target, which handles streams with handle.
func newNodes(t *testing.T, handle func(wire.Stream)) *nodes {
	t.Helper()
	s, n := sim.NewMemory(t, 3, time.Millisecond), &nodes{}
	s.Connect(0, 1)
	s.Connect(1, 2)
	members, reaches := map[peer.ID]struct{}{}, map[slot.PeerID][]slot.PeerID{}
	for _, h := range s.Hosts {
		members[h.ID()] = struct{}{}
		via := slot.PeerID(s.Hosts[1].ID())
		reaches[via] = append(reaches[via], slot.PeerID(h.ID()))
	}
	for _, h := range s.Hosts {
		group := tasks.NewGroup(t.Context())
		t.Cleanup(func() { group.Stop(); group.Wait() })
		one, err := New(Env{
			Env: peers.NewEnv(h, group, nil, slog.New(slog.DiscardHandler)), Key: h.Peerstore().PrivKey(h.ID()),
			Protocols: []protocol.ID{exchange},
			Open: func(_ context.Context, to peer.ID) (wire.Stream, error) {
				at := slices.IndexFunc(s.Hosts, func(o host.Host) bool { return o.ID() == to })
				return n.leg(h.ID(), n.all[at]), nil
			},
			Admit: func(peer.ID, protocol.ID) func(wire.Stream) { return handle },
		})
		if err != nil {
			t.Fatal(err)
		}
		one.env.Members.Set(members)
		one.SetReaches(func() map[slot.PeerID][]slot.PeerID { return reaches })
		n.all = append(n.all, one)
	}
	return n
}

func (n *nodes) leg(from peer.ID, to *Hops) wire.Stream {
	here, there := wiretest.Pipe(1 << 16)
	n.opened.Add(1)
	to.env.Tasks.Go(func() { to.Answer(slot.PeerID(from), counted{there, n}) })
	return counted{here, n}
}

func (n *nodes) open(t *testing.T) wire.Stream {
	t.Helper()
	s, err := n.all[0].Open(t.Context(), n.all[2].env.Host.ID(), exchange)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Streams that are kept ready, and that nobody takes, are closed: their connections carry the next
// ones. With resets each slot that is longer than spareTerm would cost all of them.
func TestSparesAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNodes(t, func(s wire.Stream) {
			_, _ = io.Copy(s, s)
			_ = s.Close()
		})
		s := n.open(t)
		_ = s.CloseWrite()
		if b, err := io.ReadAll(s); err != nil || len(b) > 0 {
			t.Fatalf("%d bytes came: %v", len(b), err)
		}
		_ = s.Close()
		time.Sleep(2 * spareTerm)
		synctest.Wait()
		if legs := n.opened.Load(); legs != 2*(1+maxSpares) || n.closed.Load() < 2*legs || n.resets.Load() > 0 {
			t.Errorf("of the ends of %d legs %d were closed, %d reset", legs, n.closed.Load(), n.resets.Load())
		}
	})
}
