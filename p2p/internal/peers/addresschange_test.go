package peers

import (
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/multiformats/go-multiaddr"
)

var before, after = netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("198.51.100.1")

func only(a netip.Addr) map[netip.Addr]bool { return map[netip.Addr]bool{a: true} }

// sendsFrom has a network that has this address, and sends from it.
func sendsFrom(n *node, a netip.Addr) {
	n.changes.source = func(multiaddr.Multiaddr) netip.Addr { return a }
	n.changes.had = only(a)
	n.changes.look(only(a), time.Now())
}

// TestAMoveIsNoticed: connections from an address that is gone end at once, and are begun anew. The
// other side, whom no packet tells of that, closes its own of before when the new one comes.
func TestAMoveIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, a, b := members(t)
		old := b.host.Network().ConnsToPeer(a.host.ID())
		local := IP(a.host.Network().ConnsToPeer(b.host.ID())[0].LocalMultiaddr())
		if local.IsUnspecified() {
			local = before
		}
		sendsFrom(a, local)
		s.Cut(0, 1)
		a.changes.look(map[netip.Addr]bool{}, time.Now())
		time.Sleep(10 * time.Millisecond)
		if connected(a, b) {
			t.Error("still connected from an address that is gone")
		}
		if !connected(b, a) {
			t.Error("the other side cannot know yet")
		}
		time.Sleep(100 * time.Millisecond)
		s.Heal(0, 1)
		a.changes.look(only(after), time.Now())
		time.Sleep(time.Second)
		if !connected(a, b) {
			t.Error("not connected from the new address")
		}
		now := b.host.Network().ConnsToPeer(a.host.ID())
		if len(now) != 1 || slices.Contains(old, now[0]) {
			t.Errorf("the other side has %v, and had %v", now, old)
		}
		time.Sleep(time.Minute)
		if !slices.Equal(now, b.host.Network().ConnsToPeer(a.host.ID())) {
			t.Error("the new connection does not last")
		}
	})
}

// TestAnotherAddressIsNoMove: what a connection does not send from may come and go.
func TestAnotherAddressIsNoMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := members(t)
		conn := a.host.Network().ConnsToPeer(b.host.ID())[0]
		sendsFrom(a, before)
		a.changes.look(map[netip.Addr]bool{before: true, after: true}, time.Now())
		a.changes.look(only(before), time.Now())
		time.Sleep(time.Second)
		if conn.IsClosed() {
			t.Error("a connection is ended whose address is still there")
		}
	})
}

// TestWhoIsLeftIsDialledForAWhile: the next network may take some seconds to come.
func TestWhoIsLeftIsDialledForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, a, b := members(t)
		local := IP(a.host.Network().ConnsToPeer(b.host.ID())[0].LocalMultiaddr())
		if local.IsUnspecified() {
			local = before
		}
		sendsFrom(a, local)
		s.Cut(0, 1)
		a.changes.look(map[netip.Addr]bool{}, time.Now())
		time.Sleep(5 * time.Second)
		if connected(a, b) {
			t.Fatal("connected over a link that is cut")
		}
		a.changes.look(only(after), time.Now())
		time.Sleep(6 * time.Second)
		s.Heal(0, 1)
		for range 4 {
			a.changes.look(only(after), time.Now())
			time.Sleep(lookEvery)
		}
		if !connected(a, b) {
			t.Error("not dialled again")
		}
	})
}

// TestADialGoesOnWhereNothingWent: an address that comes begins no dial anew at once.
func TestADialGoesOnWhereNothingWent(t *testing.T) {
	for name, c := range map[string]struct {
		had, have map[netip.Addr]bool
		anew      bool
	}{
		"one comes": {only(before), map[netip.Addr]bool{before: true, after: true}, false},
		"one goes":  {map[netip.Addr]bool{before: true, after: true}, only(before), true},
	} {
		synctest.Test(t, func(t *testing.T) {
			_, a, _ := pair(t)
			sendsFrom(a, before)
			a.changes.had = c.had
			a.host.Peerstore().AddAddr("left", multiaddr.StringCast("/ip4/1.2.3.4/udp/9/quic-v1"), time.Hour)
			a.members.Set(map[peer.ID]struct{}{"left": {}})
			ctx, over := a.dialer.Until(t.Context(), "left")
			defer over()
			a.changes.look(c.have, time.Now())
			if anew := ctx.Err() != nil; anew != c.anew {
				t.Errorf("%s: that the dial begins anew is %v", name, anew)
			}
			a.changes.look(c.have, time.Now().Add(dialStuck))
			if ctx.Err() == nil {
				t.Errorf("%s: a dial that is stuck goes on", name)
			}
		})
	}
}

// TestBulkOfBeforeAChangeEnds, and none since.
func TestBulkOfBeforeAChangeEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, a, b := members(t)
		local := IP(a.host.Network().ConnsToPeer(b.host.ID())[0].LocalMultiaddr())
		if local.IsUnspecified() {
			local = before
		}
		sendsFrom(a, local)
		s.Cut(0, 1)
		a.changes.look(map[netip.Addr]bool{}, time.Now())
		if !a.ended(b.host.ID(), local, time.Now()) || a.ended(b.host.ID(), after, time.Now()) {
			t.Error("an address that is gone takes the bulk connections from it with it, and no others")
		}
		time.Sleep(100 * time.Millisecond)
		s.Heal(0, 1)
		a.changes.look(only(after), time.Now())
		time.Sleep(time.Second)
		synctest.Wait()
		now := time.Now()
		if !b.ended(a.host.ID(), before, now.Add(-time.Minute)) || b.ended(a.host.ID(), before, now) ||
			b.ended("another", before, now.Add(-time.Minute)) {
			t.Error("a peer that moved loses the bulk connections that it had before, and no others")
		}
	})
}

// TestTwoThatDialEachOtherKeepBoth: what is young is no connection of before, nor is one through a
// relay, and who dials knows what it has.
func TestTwoThatDialEachOtherKeepBoth(t *testing.T) {
	const here = "/ip4/192.0.2.1/udp/1/quic-v1"
	const circuit = "/p2p/QmYyQSo1c1Ym7orWxLYvCrM2EmxFTANf8wXmmE7DWjhx5N/p2p-circuit"
	for name, c := range map[string]struct {
		by, old paperConn
		closes  bool
	}{
		"it was there before": {paperConn{addr: here}, paperConn{addr: here, age: 2 * outrun}, true},
		"at once":             {paperConn{addr: here}, paperConn{addr: here, age: outrun / 2}, false},
		"through a relay":     {paperConn{addr: here}, paperConn{addr: here + circuit, age: 2 * outrun}, false},
		"by a relay":          {paperConn{addr: here + circuit}, paperConn{addr: here, age: 2 * outrun}, false},
		"dialled here":        {paperConn{addr: here, dialled: true}, paperConn{addr: here, age: 2 * outrun}, false},
	} {
		group := NewGroup(t.Context())
		ac := &AddressChanges{
			env:     Env{Host: paperHost{net: paperNetwork{conns: []network.Conn{&c.old}}}, Tasks: group},
			endBulk: func(func(peer.ID, netip.Addr, time.Time) bool) {},
		}
		ac.supersede(&c.by)
		group.Stop()
		group.Wait()
		if c.old.closed != c.closes {
			t.Errorf("%s: that the older connection is closed is %v", name, c.old.closed)
		}
	}
}
