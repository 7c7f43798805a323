package nat

import (
	"testing"

	"github.com/libp2p/go-libp2p/core/event"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/multiformats/go-multiaddr"
)

// TestPublicIsFromEverywhere: an address that not all can dial does not make relays needless.
func TestPublicIsFromEverywhere(t *testing.T) {
	const circuit = "/p2p/QmYyQSo1c1Ym7orWxLYvCrM2EmxFTANf8wXmmE7DWjhx5N/p2p-circuit"
	for given, want := range map[string]bool{
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
		tried := &Reachability{env: Env{OwnHost: true}}
		tried.note(event.EvtHostReachableAddrsChanged{Reachable: []multiaddr.Multiaddr{multiaddr.StringCast(given)}})
		announced := &Reachability{announce: multiaddrs("/ip6/2001:db8::2/tcp/1 " + given)}
		if tried.public() != want || announced.public() != want {
			t.Errorf("%s: public if tried %v, if announced %v", given, tried.public(), announced.public())
		}
	}
}

// TestStrangersDoNotSayThatAPeerIsPublic: AutoNAT's first version believes anybody. The maker of
// a given host may say so.
func TestStrangersDoNotSayThatAPeerIsPublic(t *testing.T) {
	for _, own := range []bool{true, false} {
		r := &Reachability{env: Env{OwnHost: own}}
		r.note(event.EvtLocalReachabilityChanged{Reachability: network.ReachabilityPublic})
		if r.public() == own {
			t.Errorf("own host %v: public %v", own, r.public())
		}
	}
}
