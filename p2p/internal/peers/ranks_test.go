package peers

import (
	"fmt"
	"strings"
	"testing"

	"github.com/multiformats/go-multiaddr"
)

// TestDialRanks: in which order addresses are dialled, and with how much of a head start.
func TestDialRanks(t *testing.T) {
	const circuit = "/p2p/QmYyQSo1c1Ym7orWxLYvCrM2EmxFTANf8wXmmE7DWjhx5N/p2p-circuit"
	short := map[string]string{
		"tcp":     "/ip4/9.9.9.9/tcp/1",
		"tcp6":    "/ip6/2620:fe::fe/tcp/1",
		"quic":    "/ip4/9.9.9.9/udp/1/quic-v1",
		"relayed": "/ip4/9.9.9.10/tcp/1" + circuit,
		"home":    "/ip4/192.168.0.7/udp/1/quic-v1",
	}
	names := make(map[string]string)
	for name, addr := range short {
		names[addr] = name
	}
	addrs := func(list string) (as []multiaddr.Multiaddr) {
		for name := range strings.FieldsSeq(list) {
			as = append(as, multiaddr.StringCast(short[name]))
		}
		return as
	}
	for _, c := range []struct{ preferred, given, want string }{
		{"", "relayed quic tcp tcp6", "tcp 0s, tcp6 0s, quic 500ms, relayed 1s"},
		{"", "relayed quic", "quic 0s, relayed 1s"},
		{"", "relayed", "relayed 0s"},
		{"", "tcp", "tcp 0s"},
		{"quic tcp", "tcp relayed quic", "quic 0s, tcp 1.5s, relayed 1s"},
		{"tcp", "tcp", "tcp 0s"},
		{"tcp", "quic tcp6", "tcp6 0s, quic 500ms"}, // another node
		{"home", "tcp home", "tcp 0s, home 500ms"},  // none of the public internet
		{"relayed", "relayed tcp quic", "tcp 0s, quic 500ms, relayed 1s"},
		{"", "", ""},
	} {
		d := NewRanks()
		d.PreferQUIC(addrs(c.preferred)...)
		var got []string
		for _, r := range d.Rank(addrs(c.given)) {
			got = append(got, fmt.Sprint(names[r.Addr.String()], " ", r.Delay))
		}
		if text := strings.Join(got, ", "); text != c.want {
			t.Errorf("%q, QUIC preferred to %q: dialled %s, want %s", c.given, c.preferred, text, c.want)
		}
	}
	d := NewRanks()
	for i := range 2 * maxQUICFirst {
		d.PreferQUIC(multiaddr.StringCast(fmt.Sprintf("/ip4/8.8.8.8/udp/%d/quic-v1", 1+i)))
	}
	if n := len(d.mu.quicFirst); n != maxQUICFirst {
		t.Errorf("%d addresses are remembered", n)
	}
}
