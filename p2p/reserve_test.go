package p2p

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

// TestReservationEndsWithItsConnection: a relay that was away for a moment has forgotten who could
// be reached through it, and is asked again.
func TestReservationEndsWithItsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openRelays(t, 1, 2, always())
		s.reserved(t, 1)
		a, b := s.peers[0], s.peers[1]
		for range 3 {
			if err := a.Host().Network().ClosePeer(peer.ID(s.relays[0].ID())); err != nil {
				t.Fatal(err)
			}
			s.Connect(1, 0) // before anybody looked
			time.Sleep(5 * time.Second)
			if err := b.env.Dialer.Connect(t.Context(), peer.AddrInfo{ID: peer.ID(a.ID())}); err != nil {
				t.Errorf("the peer cannot be reached through the relay any more: %v", err)
			}
			_ = b.Host().Network().ClosePeer(peer.ID(a.ID()))
			time.Sleep(10 * time.Second) // a failed dial is not tried again at once
		}
	})
}

// TestReservationWithAPeerThatRelaysNoMore is told nobody as a way.
func TestReservationWithAPeerThatRelaysNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openRelays(t, 2, 1, always())
		s.reserved(t, 2)
		if err := s.relays[0].Close(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Second)
		if left := s.peers[0].Reach().Relays; len(left) != 1 || left[0] != s.relays[1].ID() {
			t.Errorf("reachable through %v, want through the other one alone", left)
		}
	})
}
