package peers

import (
	"testing"

	"github.com/multiformats/go-multiaddr"
)

func TestSites(t *testing.T) {
	for addr, want := range map[string]string{
		"/ip4/192.0.2.77/tcp/1":                 "192.0.2.0/24",
		"/ip6/2001:db8:1:2:3::4/tcp/1":          "2001:db8:1::/48",
		"/ip6/::ffff:192.0.2.9/udp/1/quic-v1":   "192.0.2.0/24",
		"/dns4/example.com/tcp/1":               "invalid Prefix",
		"/memory/7":                             "invalid Prefix",
		"/ip4/127.0.0.1/tcp/1/p2p-circuit":      "127.0.0.0/24",
		"/ip6zone/eth0/ip6/fe80::1/tcp/1":       "fe80::/48",
		"/ip4/10.1.2.3/udp/4001/quic-v1":        "10.1.2.0/24",
		"/ip4/10.1.2.3/tcp/4001/ws":             "10.1.2.0/24",
		"/ip6/2001:db8:1:ffff:ffff::4/tcp/4001": "2001:db8:1::/48",
	} {
		if got := Site(multiaddr.StringCast(addr)).String(); got != want {
			t.Errorf("%s is at %s, want %s", addr, got, want)
		}
	}
}
