package p2pdiloco

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

	"github.com/p2pdiloco/p2pdiloco/gossip"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership"
)

// stranger is a libp2p host that is no peer of the run and knows its name, its protocols and all that is said aloud in it.
type stranger struct {
	s    *swarm
	host int
	rand *rand.ChaCha8
	mu   struct {
		sync.Mutex
		heard map[PeerID][][]byte // sealed messages, by author
	}
}

func newStranger(s *swarm) *stranger {
	x := &stranger{s: s, host: s.net.Add(), rand: rand.NewChaCha8([32]byte{1})}
	x.mu.heard = make(map[PeerID][][]byte)
	for _, p := range s.peers {
		s.net.Connect(x.host, p.host)
	}
	return x
}

// babble opens streams of a protocol to every peer, several at once, and writes something else on each.
func (x *stranger) babble(proto protocol.ID, valid []byte) {
	huge := binary.BigEndian.AppendUint32(nil, 0xffffffff)
	short := append(binary.BigEndian.AppendUint32(nil, uint32(len(valid))), valid[:len(valid)/2]...)
	noise := make([]byte, 100_000)
	_, _ = x.rand.Read(noise)
	small := append(binary.BigEndian.AppendUint32(nil, 1000), noise[:1000]...)
	var all sync.WaitGroup
	for _, p := range x.s.peers {
		for _, b := range [][]byte{nil, huge, append(huge, noise...), short, small, noise, valid} {
			all.Go(func() { x.write(p, proto, b) })
		}
	}
	all.Wait()
}

// write sends bytes on a stream of its own, leaves it open for a while, and breaks it off.
func (x *stranger) write(p *simPeer, proto protocol.ID, b []byte) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	st, err := x.s.net.Hosts[x.host].NewStream(ctx, peer.ID(x.s.id(p)), proto)
	if err != nil {
		return // refused: there are bounds
	}
	_ = st.SetDeadline(time.Now().Add(3 * time.Second))
	_, _ = st.Write(b)
	_, _ = st.Read(make([]byte, 1000))
	time.Sleep(time.Second)
	_ = st.Reset()
}

// listen takes part in the run's gossip and keeps all it hears.
func (x *stranger) listen(run Root) *gossip.Topic {
	x.s.t.Helper()
	topic, err := gossip.Join(x.s.t.Context(), x.s.net.Hosts[x.host], gossip.Config{
		Topic: "/p2pdiloco/run/" + run.String(), Kinds: []uint8{kindLedger}, Heartbeat: gossip.LANHeartbeat,
		Deliver: func(from slot.PeerID, _ uint8, body []byte) {
			x.mu.Lock()
			defer x.mu.Unlock()
			if len(x.mu.heard[from]) < 100 {
				x.mu.heard[from] = append(x.mu.heard[from], body)
			}
		},
	})
	if err != nil {
		x.s.t.Fatal(err)
	}
	x.s.t.Cleanup(func() { _ = topic.Close() })
	return topic
}

// gathered is all that was heard of some authors; of everybody if none is named.
func (x *stranger) gathered(authors ...PeerID) (all [][]byte) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for from, messages := range x.mu.heard {
		if len(authors) == 0 || slices.Contains(authors, from) {
			all = append(all, messages...)
		}
	}
	return all
}

// forgeries are messages that must move nobody: of another run, with bytes changed, and in a member's name.
func (x *stranger) forgeries(n *Node, heard [][]byte) (out [][]byte) {
	signer := networkSigner{x}
	member, next := n.Self(), n.driver.View().Ref
	for _, run := range []Root{n.RunID(), {1, 2, 3}} {
		for _, body := range []membership.Body{
			membership.Leave{},
			membership.Need{From: 1},
			membership.Alive{Height: 1 << 40, Branch: Root{9}, Work: 1 << 60, Synced: true, Applied: 1 << 40},
			membership.Commit{Record: slot.Record{Run: run, Height: 3, Members: []slot.Member{{Peer: member}}}},
			membership.Prepare{Ref: slot.Ref{Height: next.Height, Prev: next.Prev, Ballot: 1 << 30}},
		} {
			if b, err := membership.Seal(signer, run, 7, body); err == nil {
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

// networkSigner signs with the stranger's key, in its own name.
type networkSigner struct{ x *stranger }

func (n networkSigner) ID() PeerID { return PeerID(n.x.s.net.Hosts[n.x.host].ID()) }

func (n networkSigner) Sign(b []byte) ([]byte, error) {
	h := n.x.s.net.Hosts[n.x.host]
	return h.Peerstore().PrivKey(h.ID()).Sign(b)
}

// A stranger writes garbage on every protocol and says everything it can think of aloud: the run takes no notice.
func TestAStrangerDisturbsNothing(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(12, 3), 3, func(s *swarm) {
		s.pace(25 * time.Millisecond)
		s.start(s.peers...)
		s.reach(1, s.peers...)
		n := s.peers[0].node.Load()
		x := newStranger(s)
		topic := x.listen(n.RunID())
		s.reach(3, s.peers...)
		heard := x.gathered()
		if len(heard) == 0 {
			t.Fatal("the stranger has heard nothing")
		}
		messages := append(x.forgeries(n, heard), heard...)
		for _, m := range messages {
			if len(m) <= gossip.MaxBody {
				_ = topic.Publish(s.t.Context(), kindLedger, m)
			}
		}
		for i, proto := range s.net.Hosts[s.peers[0].host].Mux().Protocols() { // libp2p's own among them
			x.babble(proto, messages[i%len(messages)])
		}
		s.finish(time.Minute, s.peers...)
		for _, p := range s.peers {
			if got := s.contributions(p); len(got) != 12 {
				t.Errorf("host %d contributed to slots %v, want all 12", p.host, got)
			}
			for _, name := range []string{"peer.suspected", "peer.left", "run.paused", "run.switched", "state.diverged"} {
				if p.had(name) {
					t.Errorf("host %d: %s %v", p.host, name, p.events(name)[0].Fields)
				}
			}
		}
	})
}

// What a dead member once said, said again by somebody else, does not make it look alive.
func TestAReplayDoesNotRaiseTheDead(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(12, 4), 4, func(s *swarm) {
		s.pace(50 * time.Millisecond)
		s.start(s.peers...)
		s.reach(1, s.peers...)
		dead := s.peers[2]
		x := newStranger(s)
		topic := x.listen(s.peers[0].node.Load().RunID())
		s.reach(2, s.peers...)
		s.kill(dead)
		said := x.gathered(s.id(dead))
		if len(said) == 0 {
			t.Fatal("the stranger has heard nothing of the dead one")
		}
		replay, stop := context.WithCancel(s.t.Context())
		var replayer sync.WaitGroup
		replayer.Go(func() {
			for i := 0; replay.Err() == nil; i++ {
				_ = topic.Publish(replay, kindLedger, said[i%len(said)])
				time.Sleep(100 * time.Millisecond)
			}
		})
		defer replayer.Wait()
		defer stop()
		s.finish(time.Minute, s.but(dead)...)
		for _, p := range s.but(dead) {
			if !p.had("peer.left") {
				t.Errorf("host %d believes that the dead member lives", p.host)
			}
		}
	})
}
