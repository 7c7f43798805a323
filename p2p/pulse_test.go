package p2p

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/p2pdiloco/p2pdiloco/internal/sim"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

func connected(a, b *Network) bool {
	return a.env.Host.Network().Connectedness(peer.ID(b.ID())) == network.Connected
}

// members makes two peers that take each other for members.
func members(t *testing.T) (s *sim.Net, a, b *Network) {
	s, a, b = pair(t)
	a.Protect([]slot.PeerID{a.ID(), b.ID()})
	b.Protect([]slot.PeerID{a.ID(), b.ID()})
	time.Sleep(time.Minute)
	if !connected(a, b) || !connected(b, a) {
		t.Error("members that have nothing to say to each other are disconnected")
	}
	return s, a, b
}

// TestASilentMemberIsDisconnected: over QUIC no reset says that it is gone.
func TestASilentMemberIsDisconnected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, a, b := members(t)
		s.Cut(0, 1)
		time.Sleep(3*time.Second - 10*time.Millisecond)
		if !connected(a, b) {
			t.Error("disconnected too early: a pulse may be late")
		}
		time.Sleep(2*time.Second + 10*time.Millisecond)
		if connected(a, b) || connected(b, a) {
			t.Error("still connected over a link that is cut")
		}
		s.Heal(0, 1)
		time.Sleep(time.Minute)
		s.Connect(0, 1)
		time.Sleep(time.Minute)
		if !connected(a, b) {
			t.Error("not connected after the link was healed")
		}
	})
}

// TestOnlyWhoPulsesIsJudged: other versions and strangers have their 30 s as before.
func TestOnlyWhoPulsesIsJudged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := pair(t)
		conn := a.env.Host.Network().ConnsToPeer(peer.ID(b.ID()))[0]
		a.Protect([]slot.PeerID{b.ID()})
		a.Handle(protocolEcho, echo)
		if _, err := roundTrip(t.Context(), b, a.ID(), protocolEcho, []byte("b can be heard")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(25 * time.Second)
		if conn.IsClosed() {
			t.Error("a peer that does not pulse is disconnected")
		}
	})
}

// TestWhateverComesIsLife: pulses may wait behind bulk.
func TestWhateverComesIsLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := members(t)
		b.Protect(nil) // it pulses no more
		done := make(chan struct{})
		a.Handle(protocolEcho, func(_ slot.PeerID, s wire.Stream) {
			defer close(done)
			for buf := make([]byte, 1); ; {
				if _, err := s.Read(buf); err != nil {
					return
				}
			}
		})
		s, err := b.Open(t.Context(), a.ID(), protocolEcho)
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			if _, err := s.Write([]byte{1}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		over := func() bool {
			select {
			case <-done:
				return true
			default:
				return false
			}
		}
		if over() {
			t.Error("disconnected while bytes came")
		}
		time.Sleep(4 * time.Second)
		if !over() {
			t.Error("not disconnected though nothing comes")
		}
	})
}

// TestABrokenConnectionIsDialledAgain at once, between members.
func TestABrokenConnectionIsDialledAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := members(t)
		before := a.env.Host.Network().ConnsToPeer(peer.ID(b.ID()))
		for _, c := range before {
			_ = c.Close()
		}
		time.Sleep(200 * time.Millisecond)
		if !connected(a, b) || !connected(b, a) {
			t.Error("not connected again")
		}
		for _, c := range a.env.Host.Network().ConnsToPeer(peer.ID(b.ID())) {
			if c == before[0] {
				t.Error("the connection was not closed")
			}
		}
	})
}
