package p2p

import (
	"context"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/protocol/holepunch"
	"github.com/multiformats/go-multiaddr"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/peers"
)

// relayedConns counts the connections of a to b through relays.
func relayedConns(a, b *Network) (count int) {
	for _, c := range a.Host().Network().ConnsToPeer(peer.ID(b.ID())) {
		if peers.IsRelayed(c.RemoteMultiaddr()) {
			count++
		}
	}
	return count
}

// TestHolePunched has two peers behind firewalls meet through a relay and punch a hole; a stream
// that goes on over the relay is not cut.
func TestHolePunched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openRelays(t, 1, 2, always(), libp2p.EnableHolePunching())
		a, b := s.peers[0], s.peers[1]
		s.reserved(t, 1)
		b.Handle(ProtocolExchange, echo)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		stream, err := a.Open(ctx, b.ID(), ProtocolExchange)
		if err != nil {
			t.Fatal(err)
		}
		say := func(text string) {
			t.Helper()
			if _, err := stream.Write([]byte(text)); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(stream, make([]byte, len(text))); err != nil {
				t.Fatal(err)
			}
		}
		say("relayed")
		if p := pathTo(a, b); p.Way != WayRelayed {
			t.Fatalf("path %+v before a hole is punched", p)
		}
		s.Wall(1)
		s.Wall(2)
		s.Heal(1, 2)
		// holes are punched when a relayed connection is new
		_ = b.Host().Network().ClosePeer(peer.ID(a.ID()))
		time.Sleep(time.Second)
		if stream, err = a.Open(ctx, b.ID(), ProtocolExchange); err != nil {
			t.Fatal(err)
		}
		say("relayed again")
		eventually(t, 20*time.Second, "a direct way", func() bool { return pathTo(a, b).Way != WayRelayed })
		say("still relayed")
		time.Sleep(2 * 3 * time.Second)
		say("and still")
		noError(t, stream.Close())
		eventually(t, 20*time.Second, "the end of the relayed connection",
			func() bool { return relayedConns(a, b) == 0 })
		if _, err := roundTrip(ctx, a, b.ID(), ProtocolExchange, []byte("direct")); err != nil {
			t.Error(err)
		}
		for _, p := range []Path{pathTo(a, b), pathTo(b, a)} {
			if p.Way == WayRelayed || p.Transport != "quic-v1" {
				t.Errorf("path %+v, want a direct one", p)
			}
		}
		pathTo(a, b)
		time.Sleep(time.Second)
		if rtt := pathTo(a, b).RTT; rtt < 20*time.Millisecond || rtt > 30*time.Millisecond {
			t.Errorf("round trip %s, want 20 ms", rtt)
		}
	})
}

// TestHolesArePunchedAgain: a connection through a relay that comes before the two know how they
// are seen from outside is not left so.
func TestHolesArePunchedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openRelays(t, 1, 2, always())
		a, b := s.peers[0], s.peers[1]
		s.reserved(t, 1)
		seen := time.Now().Add(10 * time.Second)
		var tries [2]punchTries
		for i, n := range s.peers {
			own := n.env.Host.(interface{ AllAddrs() []multiaddr.Multiaddr })
			addrs := func() []multiaddr.Multiaddr {
				if time.Now().Before(seen) {
					return nil
				}
				return own.AllAddrs()
			}
			noError(t, n.nat.PunchAt(addrs, holepunch.WithTracer(&tries[i])))
		}
		a.Protect([]slot.PeerID{b.ID()})
		b.Protect([]slot.PeerID{a.ID()})
		noError(t, a.env.Dialer.Connect(t.Context(), peer.AddrInfo{ID: peer.ID(b.ID())}))
		time.Sleep(time.Until(seen))
		if n := tries[0].Load() + tries[1].Load(); n > 0 {
			t.Fatalf("%d tries at addresses that nobody knew", n)
		}
		eventually(t, time.Minute, "a try to punch a hole", func() bool { return tries[0].Load()+tries[1].Load() > 0 })
		s.Wall(1)
		s.Wall(2)
		s.Heal(1, 2)
		eventually(t, 6*time.Minute, "a direct way",
			func() bool { return pathTo(a, b).Way != WayRelayed })
	})
}

// punchTries counts the holes that were tried to be punched.
type punchTries struct{ atomic.Int32 }

// Trace implements holepunch.EventTracer.
func (p *punchTries) Trace(e *holepunch.Event) {
	if _, ok := e.Evt.(*holepunch.StartHolePunchEvt); ok {
		p.Add(1)
	}
}
