package p2p

import (
	"slices"
	"strings"
	"testing"

	"github.com/libp2p/go-libp2p/core/event"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/multiformats/go-multiaddr"
)

// TestPublicIsFromEverywhere: an address that not all can dial does not make relays needless.
func TestPublicIsFromEverywhere(t *testing.T) {
	const circuit = "/p2p/QmYyQSo1c1Ym7orWxLYvCrM2EmxFTANf8wXmmE7DWjhx5N/p2p-circuit"
	for addr, want := range map[string]bool{
		"/ip4/203.0.113.1/tcp/1":           true,
		"/ip4/203.0.113.1/udp/1/quic-v1":   true,
		"/dns/example.com/udp/1/quic-v1":   true,
		"/dns4/example.com/tcp/1":          true,
		"/ip6/2001:db8::1/tcp/1":           false,
		"/ip6/2001:db8::1/udp/1/quic-v1":   false,
		"/dns6/example.com/tcp/1":          false,
		"/ip4/203.0.113.1/udp/1":           false,
		"/ip4/203.0.113.1/tcp/1/ws":        false,
		"/ip4/203.0.113.1/tcp/1" + circuit: false,
	} {
		tried := &reachability{n: &Network{ownHost: true}}
		tried.take(event.EvtHostReachableAddrsChanged{Reachable: []multiaddr.Multiaddr{multiaddr.StringCast(addr)}})
		announced := &reachability{n: &Network{cfg: Config{Announce: []string{"/ip6/2001:db8::2/tcp/1", addr}}}}
		if tried.public() != want || announced.public() != want {
			t.Errorf("%s: public if tried %v, if announced %v", addr, tried.public(), announced.public())
		}
	}
}

// TestStrangersDoNotSayThatAPeerIsPublic: AutoNAT's first version takes anybody's word. Who gives a host may say so.
func TestStrangersDoNotSayThatAPeerIsPublic(t *testing.T) {
	for _, own := range []bool{true, false} {
		r := &reachability{n: &Network{ownHost: own}}
		r.take(event.EvtLocalReachabilityChanged{Reachability: network.ReachabilityPublic})
		if r.public() == own {
			t.Errorf("own host %v: public %v", own, r.public())
		}
	}
}

// TestAnnouncedAddresses are told before those that are listened on, and the list that libp2p gave stays as it was.
func TestAnnouncedAddresses(t *testing.T) {
	const announced = "/ip4/203.0.113.1/tcp/4001"
	seen := []multiaddr.Multiaddr{somewhere}
	if got := announcing([]string{announced, "junk"})(seen); len(got) != 2 || got[0].String() != announced || !got[1].Equal(seen[0]) || len(seen) != 1 {
		t.Errorf("told %v", got)
	}
	cfg := LAN()
	cfg.Listen, cfg.Announce = []string{"/ip4/127.0.0.1/tcp/0"}, []string{announced}
	n := loopback(t, cfg)
	addrs := n.Addrs()
	if len(addrs) != 2 || !slices.ContainsFunc(addrs, func(a string) bool { return strings.HasPrefix(a, announced+"/p2p/") }) {
		t.Errorf("told %v", addrs)
	}
	if !n.Reach().Public {
		t.Error("not public")
	}
}
