package liveness

import (
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/multiformats/go-multiaddr"

	"github.com/p2pdiloco/p2pdiloco/p2p/internal/addr"
)

var before, after = netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("198.51.100.1")

func only(a netip.Addr) map[netip.Addr]bool { return map[netip.Addr]bool{a: true} }

// sendsFrom has a network that has this address, and sends from it.
func sendsFrom(n *node, a netip.Addr) {
	n.changes.source = func(multiaddr.Multiaddr) netip.Addr { return a }
	n.changes.had = only(a)
	n.changes.look(only(a), time.Now())
}

// TestAMoveIsNoticed: connections from an address that is gone end at once, are begun anew, and the
// other side ends its own of before when it hears of that, which none of their packets tells.
func TestAMoveIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, a, b := members(t)
		old := b.host.Network().ConnsToPeer(a.host.ID())
		local := addr.IP(a.host.Network().ConnsToPeer(b.host.ID())[0].LocalMultiaddr())
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
		local := addr.IP(a.host.Network().ConnsToPeer(b.host.ID())[0].LocalMultiaddr())
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

// TestWhatAMoveEnds: all from the address, what leads through a relay that was reached from it, and
// nothing else.
func TestWhatAMoveEnds(t *testing.T) {
	const x, y = "QmYyQSo1c1Ym7orWxLYvCrM2EmxFTANf8wXmmE7DWjhx5N", "QmcgpsyWgH8Y8ajJz1Cu72KnS5uo2Aa2LpzU7kinSupNKC"
	relayX, _ := peer.Decode(x)
	relayY, _ := peer.Decode(y)
	const here, elsewhere = "/ip4/192.0.2.1/tcp/1", "/ip4/198.51.100.1/tcp/1"
	conns := []*paperConn{
		{peer: relayX, addr: here},
		{peer: relayY, addr: elsewhere},
		{peer: "both", addr: here},
		{peer: "both", addr: elsewhere},
		{peer: "one", addr: here},
		{peer: "by x", addr: "/ip4/192.0.2.9/tcp/1/p2p/" + x + "/p2p-circuit"},
		{peer: "by y", addr: "/ip4/192.0.2.9/tcp/1/p2p/" + y + "/p2p-circuit"},
		{peer: "one by y", addr: here},
		{peer: "one by y", addr: "/ip4/192.0.2.9/tcp/1/p2p/" + y + "/p2p-circuit"},
	}
	all := make([]network.Conn, len(conns))
	for i := range conns {
		all[i] = conns[i]
	}
	dead, alone := lost(all, func(c network.Conn) bool { return c.RemoteMultiaddr().String() == here })
	if want := []network.Conn{all[0], all[2], all[4], all[7], all[5]}; !slices.Equal(dead, want) {
		t.Errorf("%v end, not %v", dead, want)
	}
	for id, want := range map[peer.ID]bool{
		relayX: true, relayY: false, "both": false, "one": true, "by x": true,
		"by y": false, "one by y": false,
	} {
		if alone[id] != want {
			t.Errorf("that %q has no connection left is %v", id, alone[id])
		}
	}
}

// TestBrokenByAMove: over QUIC a packet that cannot leave ends the connection before the move is
// noticed. The other side is to hear of it all the same.
func TestBrokenByAMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, a, b := members(t)
		sendsFrom(a, before)
		s.Cut(0, 1)
		for _, c := range a.host.Network().ConnsToPeer(b.host.ID()) {
			_ = c.Close()
		}
		time.Sleep(100 * time.Millisecond)
		s.Heal(0, 1)
		a.changes.look(only(after), time.Now())
		time.Sleep(time.Second)
		if !connected(a, b) {
			t.Error("not connected again")
		}
		if now := b.host.Network().ConnsToPeer(a.host.ID()); len(now) != 1 {
			t.Errorf("the other side has %v", now)
		}
	})
}

// TestADialIsBegunAnewAfterAMove: what was sent between two networks is lost, and libp2p would wait
// for it.
func TestADialIsBegunAnewAfterAMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := pair(t)
		sendsFrom(a, before)
		addrs := a.host.Peerstore().Addrs(b.host.ID())
		for _, c := range a.host.Network().Conns() {
			_ = c.Close()
		}
		a.host.Peerstore().ClearAddrs(b.host.ID())
		a.host.Peerstore().AddAddr(b.host.ID(), multiaddr.StringCast("/ip4/1.2.3.4/udp/9/quic-v1"), time.Hour)
		began, took := time.Now(), make(chan time.Duration)
		go func() {
			if err := a.dialer.Connect(t.Context(), peer.AddrInfo{ID: b.host.ID()}); err != nil {
				t.Error(err)
			}
			took <- time.Since(began)
		}()
		time.Sleep(100 * time.Millisecond)
		a.host.Peerstore().ClearAddrs(b.host.ID())
		a.host.Peerstore().AddAddrs(b.host.ID(), addrs, time.Hour)
		a.changes.look(only(after), time.Now())
		if d := <-took; d > time.Second {
			t.Errorf("it took %v", d)
		}
	})
}

// TestWhoWasLeftIsForgotten: those who never come back are not remembered, nor dialled at each
// move, for ever.
func TestWhoWasLeftIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, _ := pair(t)
		sendsFrom(a, before)
		a.changes.mu.Lock()
		a.changes.mu.left["gone"] = time.Now().Add(-maxMoveAge - time.Second)
		a.changes.mu.left["just gone"] = time.Now()
		a.changes.mu.Unlock()
		a.changes.look(only(after), time.Now())
		a.changes.mu.Lock()
		defer a.changes.mu.Unlock()
		_, old := a.changes.mu.left["gone"]
		if _, late := a.changes.mu.left["just gone"]; old || !late {
			t.Errorf("one of long ago: %v, one of now: %v", old, late)
		}
	})
}

// TestADialGoesOnWhereNothingItNeedsWent: an address that comes, or one that cannot be what it is
// sent from and goes, begins no dial anew at once.
func TestADialGoesOnWhereNothingItNeedsWent(t *testing.T) {
	six := netip.MustParseAddr("2001:db8::1")
	for name, c := range map[string]struct {
		had, have map[netip.Addr]bool
		anew      bool
	}{
		"one comes":          {only(before), map[netip.Addr]bool{before: true, after: true}, false},
		"of another version": {map[netip.Addr]bool{before: true, six: true}, only(before), false},
		"of this one":        {map[netip.Addr]bool{before: true, after: true}, only(before), true},
	} {
		synctest.Test(t, func(t *testing.T) {
			_, a, _ := pair(t)
			sendsFrom(a, before)
			a.changes.had = c.had
			a.host.Peerstore().AddAddr("left", multiaddr.StringCast("/ip4/1.2.3.4/udp/9/quic-v1"), time.Hour)
			a.changes.mu.Lock()
			a.changes.mu.left["left"] = time.Now()
			a.changes.mu.Unlock()
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
		_, a, b := pair(t)
		now := time.Now()
		a.changes.forgo(b.host.ID(), now)
		if !a.ended(b.host.ID(), before, now.Add(-time.Second)) || a.ended(b.host.ID(), before, now) ||
			a.ended("another", before, now.Add(-time.Second)) {
			t.Error("a peer that moved loses the bulk connections that it had before, and no others")
		}
		sendsFrom(a, before)
		a.changes.look(only(after), now)
		if !a.ended(b.host.ID(), before, now) || a.ended(b.host.ID(), after, now) {
			t.Error("an address that is gone takes the bulk connections from it with it, and no others")
		}
	})
}
