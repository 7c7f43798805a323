package main

import (
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/ticket"
)

// The command invite says where a ticket cannot work.
func TestAboutATicketsAddresses(t *testing.T) {
	const local, far = "all its addresses are of the local network", "all its addresses are of this machine"
	for _, c := range []struct {
		addrs []string
		want  string
	}{
		{[]string{"/ip4/127.0.0.1/tcp/1/p2p/x", "/ip6/::1/tcp/1/p2p/x"}, far},
		{[]string{
			"/ip4/127.0.0.1/tcp/1/p2p/x", "/ip4/192.168.1.7/tcp/1/p2p/x", "/ip6/fe80::1/tcp/1/p2p/x",
			"/ip6/fd00::1/tcp/1/p2p/x",
		}, local},
		{[]string{"/ip4/10.0.0.1/tcp/1/p2p/x", "/ip4/8.8.8.8/udp/1/quic-v1/p2p/x"}, ""},
		{[]string{"/dns4/example.org/tcp/1/p2p/x"}, ""},
	} {
		got := about(ticket.Ticket{Run: "r", Addrs: c.addrs})
		if !strings.Contains(got, c.want) || c.want == "" && strings.Contains(got, "all its addresses") {
			t.Errorf("%v: %s", c.addrs, got)
		}
	}
}
