package peers

import (
	"slices"
	"strings"
	"testing"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/multiformats/go-multiaddr"
)

func contactOf(t *testing.T, all []contact, id string, addrs ...string) []contact {
	t.Helper()
	var parsed []multiaddr.Multiaddr
	for _, a := range addrs {
		parsed = append(parsed, multiaddr.StringCast(a))
	}
	return addContact(all, peer.ID(id), parsed, func(addr string) bool { return !strings.Contains(addr, "odd") })
}

func TestContactsAreChosenInTurn(t *testing.T) {
	all := contactOf(t, nil, "a", "/ip4/127.0.0.1/tcp/1", "/dns4/odd.example/tcp/1", "/ip4/10.0.0.1/tcp/1",
		"/ip4/8.8.8.8/udp/1/quic-v1", "/ip4/8.8.8.8/tcp/1")
	all = contactOf(t, all, "b", "/ip4/127.0.0.1/tcp/2", "/ip4/0.0.0.0/tcp/2", "/ip6/fe80::1/tcp/2")
	const circuit = "/p2p/QmYyQSo1c1Ym7orWxLYvCrM2EmxFTANf8wXmmE7DWjhx5N/p2p-circuit"
	all = contactOf(t, all, "c", "/ip4/10.0.0.3/tcp/3", "/ip4/127.0.0.1/tcp/3", "/ip4/10.0.0.1/tcp/1"+circuit)
	if n := len(all[2].addrs); n != 1 {
		t.Errorf("%d addresses: one through a relay of the same network is of no use beside others", n)
	}
	all = contactOf(t, all, "a", "/ip4/9.9.9.9/tcp/1")
	all = contactOf(t, all, "nowhere", "/ip4/0.0.0.0/tcp/2")
	all = contactOf(t, all, "odd", "/dns4/odd.example/tcp/2")
	choose(all, 2)
	var got [][]string
	for _, c := range all {
		var addrs []string
		for _, a := range c.addrs[:c.chosen] {
			addrs = append(addrs, a.String())
		}
		got = append(got, addrs)
	}
	want := [][]string{{"/ip4/8.8.8.8/tcp/1"}, {"/ip4/10.0.0.3/tcp/3"}, nil}
	if !slices.EqualFunc(got, want, slices.Equal[[]string]) {
		t.Errorf("got %q, want %q", got, want)
	}
	choose(all, 100)
	if n := len(all[0].addrs); n != 3 || all[0].chosen != 3 {
		t.Errorf("%d of %d addresses: the loopback one is of no use beside others", all[0].chosen, n)
	}
}
