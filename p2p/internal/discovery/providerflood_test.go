package discovery

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/multiformats/go-multiaddr"

	"github.com/p2pdiloco/p2pdiloco/internal/sim"
)

// TestAFloodOfProviders has 500 peers that nobody can reach announce the run, which costs a
// stranger nothing but names. A newcomer that the DHT tells of them all still finds the run's own
// peers soon.
func TestAFloodOfProviders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const bogus, peers = 500, 3
		s := sim.New(t, 1+peers, 20*time.Millisecond)
		newcomer := simulated(t, s, 0, wan())
		key, err := runKey("run")
		if err != nil {
			t.Fatal(err)
		}
		announce := func(p peer.AddrInfo) {
			noError(t, newcomer.env.DHT.ProviderStore().AddProvider(t.Context(), key.Hash(), p))
		}
		for i := range bogus {
			id := peerOf(t)
			nowhere := multiaddr.StringCast(fmt.Sprintf("/ip4/9.9.%d.%d/udp/4001/quic-v1", i>>8, i&255))
			announce(peer.AddrInfo{ID: id, Addrs: []multiaddr.Multiaddr{nowhere}})
		}
		for i := range peers {
			simulated(t, s, 1+i, wan())
			announce(s.Info(1 + i))
		}
		collect(t, newcomer.find(t.Context(), "run"), peers, 30*time.Second)
	})
}
