package hostile

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/gossip"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// babble opens streams of a protocol to every peer, several at once, and writes something else on
// each.
func babble(x *nodetest.Stranger, proto protocol.ID, valid []byte) {
	huge := binary.BigEndian.AppendUint32(nil, 0xffffffff)
	short := append(binary.BigEndian.AppendUint32(nil, uint32(len(valid))), valid[:len(valid)/2]...)
	noise := make([]byte, 100_000)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(noise)
	small := append(binary.BigEndian.AppendUint32(nil, 1000), noise[:1000]...)
	var all sync.WaitGroup
	for _, p := range x.S.Peers {
		for _, b := range [][]byte{nil, huge, append(huge, noise...), short, small, noise, valid} {
			all.Go(func() { write(x, p, proto, b) })
		}
	}
	all.Wait()
}

// write sends bytes on a stream of its own, leaves it open for a while, and breaks it off.
func write(x *nodetest.Stranger, p *nodetest.Peer, proto protocol.ID, b []byte) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	st, err := x.S.Net.Hosts[x.Host].NewStream(ctx, peer.ID(x.S.ID(p)), proto)
	if err != nil {
		return // refused: there are bounds
	}
	_ = st.SetDeadline(time.Now().Add(3 * time.Second))
	_, _ = st.Write(b)
	_, _ = st.Read(make([]byte, 1000))
	time.Sleep(time.Second)
	_ = st.Reset()
}

// forgeries are messages that must move nobody: of another run, with bytes changed, and in a
// member's name.
func forgeries(x *nodetest.Stranger, p *nodetest.Peer, heard [][]byte) (out [][]byte) {
	member, next := x.S.ID(p), p.Ledger().View().Ref
	for _, run := range []p2pdiloco.Root{p.Node.Load().RunID(), {1, 2, 3}} {
		for _, body := range []wire.Body{
			wire.Leave{},
			wire.Need{From: 1},
			wire.Alive{Height: 1 << 40, Branch: p2pdiloco.Root{9}, Work: 1 << 60, Synced: true, Applied: 1 << 40},
			wire.Commit{Record: slot.Record{Run: run, Height: 3, Members: []slot.Member{{Peer: member}}}},
			wire.Retry{Ref: slot.Ref{Height: next.Height, Prev: next.Prev, Ballot: 1<<30 + 1}},
		} {
			if b, err := wire.Seal(x, run, 7, body); err == nil {
				out = append(out, b)
			}
		}
	}
	for i, b := range heard {
		b = slices.Clone(b)
		b[i%len(b)] ^= 1
		out = append(out, b)
	}
	return out
}

// A stranger writes garbage on every protocol and says everything it can think of aloud: the run
// takes no notice.
func TestAStrangerDisturbsNothing(t *testing.T) {
	nodetest.Once(t, 12, 3, func(s *nodetest.Swarm) {
		s.Pace(25 * time.Millisecond)
		s.Start(s.Peers...)
		s.Reach(1, s.Peers...)
		n := s.Peers[0].Node.Load()
		x := nodetest.NewStranger(s)
		topic := x.Listen(n.RunID())
		s.Reach(3, s.Peers...)
		heard := x.Gathered()
		if len(heard) == 0 {
			t.Fatal("the stranger has heard nothing")
		}
		messages := append(forgeries(x, s.Peers[0], heard), heard...)
		for _, m := range messages {
			if len(m) <= gossip.MaxBody {
				_ = topic.Publish(s.T.Context(), nodetest.LedgerKind, m)
			}
		}
		// libp2p's own among them
		for i, proto := range s.Net.Hosts[s.Peers[0].Host].Mux().Protocols() {
			babble(x, proto, messages[i%len(messages)])
		}
		s.Finish(time.Minute, s.Peers...)
		for _, p := range s.Peers {
			if got := s.Contributions(p); len(got) != 12 {
				t.Errorf("host %d contributed to slots %v, want all 12", p.Host, got)
			}
			for _, name := range []string{
				"peer.suspected", "peer.left", "run.paused", "run.switched",
				"state.diverged",
			} {
				if p.Had(name) {
					t.Errorf("host %d: %s %v", p.Host, name, p.Events(name)[0].Fields)
				}
			}
		}
	})
}

// What a dead member once said, said again by somebody else, does not make it look alive.
func TestAReplayDoesNotRaiseTheDead(t *testing.T) {
	nodetest.Once(t, 12, 4, func(s *nodetest.Swarm) {
		s.Pace(50 * time.Millisecond)
		s.Start(s.Peers...)
		s.Reach(1, s.Peers...)
		dead := s.Peers[2]
		x := nodetest.NewStranger(s)
		topic := x.Listen(s.Peers[0].Node.Load().RunID())
		s.Reach(2, s.Peers...)
		s.Kill(dead)
		said := x.Gathered(s.ID(dead))
		if len(said) == 0 {
			t.Fatal("the stranger has heard nothing of the dead one")
		}
		replay, stop := context.WithCancel(s.T.Context())
		var replayer sync.WaitGroup
		replayer.Go(func() {
			for i := 0; replay.Err() == nil; i++ {
				_ = topic.Publish(replay, nodetest.LedgerKind, said[i%len(said)])
				time.Sleep(100 * time.Millisecond)
			}
		})
		defer replayer.Wait()
		defer stop()
		s.Finish(time.Minute, s.But(dead)...)
		for _, p := range s.But(dead) {
			if !p.Had("peer.left") {
				t.Errorf("host %d believes that the dead member lives", p.Host)
			}
		}
	})
}
