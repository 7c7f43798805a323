package p2p

import (
	"slices"
	"strings"
	"testing"

	"github.com/multiformats/go-multiaddr"

	"github.com/p2pdiloco/p2pdiloco/p2p/internal/peers"
)

// TestAnnouncedAddresses are told before those that are listened on, and the list that libp2p gave
// stays as it was.
func TestAnnouncedAddresses(t *testing.T) {
	const announced = "/ip4/203.0.113.1/tcp/4001"
	seen := []multiaddr.Multiaddr{somewhereLocal}
	if got := peers.Announcing([]string{announced, "junk"})(seen); len(got) != 2 || got[0].String() != announced ||
		!got[1].Equal(seen[0]) || len(seen) != 1 {
		t.Errorf("told %v", got)
	}
	cfg := LAN()
	cfg.Listen, cfg.Announce = []string{"/ip4/127.0.0.1/tcp/0"}, []string{announced}
	n := loopback(t, cfg)
	addrs := n.Addrs()
	if len(addrs) != 2 || !slices.ContainsFunc(addrs,
		func(a string) bool { return strings.HasPrefix(a, announced+"/p2p/") }) {
		t.Errorf("told %v", addrs)
	}
	if !n.Reach().Public {
		t.Error("not public")
	}
}
