package p2p

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/multiformats/go-multiaddr"
)

// TestNoBulkWhereARelayIsNeeded: the addresses of a peer that is reached through a relay are silent, and each stream would wait for that.
func TestNoBulkWhereARelayIsNeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openRelays(t, 1, 2, always())
		s.reserved(t, 1)
		a, b := s.peers[0], peer.ID(s.peers[1].ID())
		if err := a.connect(t.Context(), peer.AddrInfo{ID: b}); err != nil {
			t.Fatal(err)
		}
		tcp := multiaddr.StringCast("/ip4/192.0.2.1/tcp/1")
		for id, want := range map[peer.ID]int{b: 0, peer.ID(s.relays[0].ID()): 1} {
			a.host.Peerstore().AddAddr(id, tcp, time.Hour)
			if got := (&bulk{n: a}).addrs(id); len(got) != want {
				t.Errorf("bulk connections to %v are tried, want %d", got, want)
			}
		}
	})
}
