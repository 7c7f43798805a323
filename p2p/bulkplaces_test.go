package p2p

import (
	"fmt"
	"net"
	"net/netip"
	"testing"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/multiformats/go-multiaddr"
)

func site(i int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i), 0, 0}), 24)
}

// taker gives places to sites, and knows which site has how many by what is taken away.
type taker struct {
	t     *testing.T
	p     places
	has   map[netip.Prefix]int
	order []*place
}

func newTaker(t *testing.T, limit int) *taker {
	return &taker{t: t, p: newPlaces(limit), has: make(map[netip.Prefix]int)}
}

func (k *taker) take(i int, busy bool) (mine, lost *place) {
	mine, lost = k.p.take(site(i), nil)
	if lost != nil {
		k.has[lost.site]--
	}
	if mine != nil {
		mine.busy = busy
		k.has[mine.site]++
		k.order = append(k.order, mine)
	}
	if len(k.p.held) > k.p.limit {
		k.t.Errorf("%d places of %d are held", len(k.p.held), k.p.limit)
	}
	return mine, lost
}

// TestPlacesAreShared: who has all loses to who has none, down to equal shares; streams go last, and never for a site that has as many.
func TestPlacesAreShared(t *testing.T) {
	k := newTaker(t, 8)
	for range 8 {
		if mine, lost := k.take(0, true); mine == nil || lost != nil {
			t.Fatal("a place was refused while there were some")
		}
	}
	if mine, _ := k.take(0, true); mine != nil {
		t.Error("a site with all places took a stream's place of its own")
	}
	for i := range 4 {
		if mine, lost := k.take(1, true); mine == nil || lost != k.order[i] {
			t.Errorf("place %d of a site that has fewer: %v for %v, want the oldest of the other", i, mine, lost)
		}
	}
	if mine, _ := k.take(1, true); mine != nil || k.has[site(0)] != 4 || k.has[site(1)] != 4 {
		t.Errorf("shares of %v", k.has)
	}
	if mine, lost := k.take(2, false); mine == nil || lost.site == site(2) {
		t.Error("a third site got nothing")
	}
}

// TestPlacesWithoutStreamsGoFirst, and not those of a site that has fewer than the newcomer's.
func TestPlacesWithoutStreamsGoFirst(t *testing.T) {
	k := newTaker(t, 6)
	for range 2 {
		k.take(0, true)
	}
	older, _ := k.take(0, false)
	k.take(0, false)
	small, _ := k.take(1, false)
	k.take(0, true)
	if _, lost := k.take(0, false); lost != older {
		t.Errorf("%+v went, want the site's own oldest without a stream", lost)
	}
	for range 2 {
		if mine, lost := k.take(0, true); mine == nil || lost == small {
			t.Errorf("%+v went for a site that has more", lost)
		}
	}
	if mine, lost := k.take(0, true); mine != nil {
		t.Errorf("%+v went for a site that has more", lost)
	}
	k.p.leave(small)
	if mine, lost := k.take(0, true); mine == nil || lost != nil {
		t.Error("a place that was left is not given")
	}
}

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
		if got := siteOf(multiaddr.StringCast(addr)).String(); got != want {
			t.Errorf("%s is at %s, want %s", addr, got, want)
		}
	}
}

type noConn struct{ net.Conn }

func (noConn) Close() error { return nil }

// TestBulkPlaces: peers that are not members cannot take all places for connections from others, and none from members.
func TestBulkPlaces(t *testing.T) {
	a := loopback(t, LAN())
	admit := func(i int, id peer.ID, streaming bool) *bulkConn {
		c := &bulkConn{b: a.bulk, peer: id, scope: &network.NullScope{}, raw: noConn{}}
		if err := a.bulk.admit(c, site(i)); err != nil {
			return nil
		}
		a.bulk.busy(c, streaming)
		return c
	}
	var first *bulkConn
	for i := range maxBulkStrangers {
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
	if _, held := a.bulk.mu.taken[first]; held {
		t.Error("the oldest is still there")
	}
	protect := func(ids ...peer.ID) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.mu.protected = make(map[peer.ID]struct{})
		for _, id := range ids {
			a.mu.protected[id] = struct{}{}
		}
	}
	const member, promoted = peer.ID("member"), peer.ID("stranger 7")
	protect(member)
	for range 3 {
		if admit(0, member, true) == nil {
			t.Error("a member is refused")
		}
	}
	if n := len(a.bulk.mu.taken); n != maxBulkStrangers+3 {
		t.Errorf("%d connections", n)
	}
	// Whoever becomes a member leaves its place to others.
	protect(member, promoted)
	for _, c := range a.bulk.connsOf(func(c *bulkConn) bool { return c.peer == promoted }) {
		a.bulk.busy(c, true)
	}
	if admit(0, "another", true) == nil {
		t.Error("the place of one who became a member is kept")
	}
	protect()
}
