package bulk

import (
	"fmt"
	"net"
	"net/netip"
	"testing"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
)

func site(i int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i), 0, 0}), 24)
}

type noConn struct{ net.Conn }

func (noConn) Close() error { return nil }

// TestBulkPlaces: peers that are not members cannot take all places for connections from others,
// and none from members.
func TestBulkPlaces(t *testing.T) {
	a := loopback(t)
	admit := func(i int, id peer.ID, streaming bool) *conn {
		c := &conn{b: a.Conns, peer: id, scope: &network.NullScope{}, raw: noConn{}}
		if err := a.admit(c, site(i)); err != nil {
			return nil
		}
		a.busy(c, streaming)
		return c
	}
	var first *conn
	for i := range maxStrangers {
		c := admit(0, peer.ID(fmt.Sprint("stranger ", i)), true)
		if c == nil {
			t.Fatal("a stranger is refused while there are places")
		}
		if i == 0 {
			first = c
		}
	}
	if admit(0, "another", true) != nil {
		t.Error("one stranger too many got in")
	}
	if admit(1, "from elsewhere", true) == nil {
		t.Error("strangers at one site keep out those elsewhere")
	}
	if _, held := a.mu.taken[first]; held {
		t.Error("the oldest is still there")
	}
	protect := func(ids ...peer.ID) {
		members := make(map[peer.ID]struct{})
		for _, id := range ids {
			members[id] = struct{}{}
		}
		a.env.Members.Set(members)
	}
	const member, promoted = peer.ID("member"), peer.ID("stranger 7")
	protect(member)
	for range 3 {
		if admit(0, member, true) == nil {
			t.Error("a member is refused")
		}
	}
	if n := len(a.mu.taken); n != maxStrangers+3 {
		t.Errorf("%d connections", n)
	}
	// Whoever becomes a member leaves its place to others.
	protect(member, promoted)
	for _, c := range a.connsOf(func(c *conn) bool { return c.peer == promoted }) {
		a.busy(c, true)
	}
	if admit(0, "another", true) == nil {
		t.Error("the place of one who became a member is kept")
	}
	protect()
}
