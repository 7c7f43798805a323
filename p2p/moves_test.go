package p2p

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
func sendsFrom(n *Network, a netip.Addr) {
	n.moves.source = func(multiaddr.Multiaddr) netip.Addr { return a }
	n.moves.had = only(a)
	n.moves.look(only(a), time.Now())
}

// TestAMoveIsNoticed: connections from an address that is gone end at once, are begun anew, and the other side ends its own of before when it hears of
// that, which none of their packets tells.
func TestAMoveIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, a, b := members(t)
		old := b.host.Network().ConnsToPeer(peer.ID(a.ID()))
		local := ipOf(a.host.Network().ConnsToPeer(peer.ID(b.ID()))[0].LocalMultiaddr())
		if local.IsUnspecified() {
			local = before
		}
		sendsFrom(a, local)
		s.Cut(0, 1)
		a.moves.look(map[netip.Addr]bool{}, time.Now())
		time.Sleep(10 * time.Millisecond)
		if connected(a, b) {
			t.Error("still connected from an address that is gone")
		}
		if !connected(b, a) {
			t.Error("the other side cannot know yet")
		}
		time.Sleep(100 * time.Millisecond)
		s.Heal(0, 1)
		a.moves.look(only(after), time.Now())
		time.Sleep(time.Second)
		if !connected(a, b) {
			t.Error("not connected from the new address")
		}
		now := b.host.Network().ConnsToPeer(peer.ID(a.ID()))
		if len(now) != 1 || slices.Contains(old, now[0]) {
			t.Errorf("the other side has %v, and had %v", now, old)
		}
		time.Sleep(time.Minute)
		if !slices.Equal(now, b.host.Network().ConnsToPeer(peer.ID(a.ID()))) {
			t.Error("the new connection does not last")
		}
	})
}

// TestAnotherAddressIsNoMove: what a connection does not send from may come and go.
func TestAnotherAddressIsNoMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := members(t)
		conn := a.host.Network().ConnsToPeer(peer.ID(b.ID()))[0]
		sendsFrom(a, before)
		a.moves.look(map[netip.Addr]bool{before: true, after: true}, time.Now())
		a.moves.look(only(before), time.Now())
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
		local := ipOf(a.host.Network().ConnsToPeer(peer.ID(b.ID()))[0].LocalMultiaddr())
		if local.IsUnspecified() {
			local = before
		}
		sendsFrom(a, local)
		s.Cut(0, 1)
		a.moves.look(map[netip.Addr]bool{}, time.Now())
		time.Sleep(5 * time.Second)
		if connected(a, b) {
			t.Fatal("connected over a link that is cut")
		}
		a.moves.look(only(after), time.Now())
		time.Sleep(6 * time.Second)
		s.Heal(0, 1)
		for range 4 {
			a.moves.look(only(after), time.Now())
			time.Sleep(moveLook)
		}
		if !connected(a, b) {
			t.Error("not dialled again")
		}
	})
}

// TestWhatAMoveEnds: all from the address, what leads through a relay that was reached from it, and nothing else.
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
	for id, want := range map[peer.ID]bool{relayX: true, relayY: false, "both": false, "one": true, "by x": true, "by y": false, "one by y": false} {
		if alone[id] != want {
			t.Errorf("that %q has no connection left is %v", id, alone[id])
		}
	}
}

// TestBulkOfBeforeAMoveEnds, and none since.
func TestBulkOfBeforeAMoveEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, c, _ := piped(t, nil)
		b[0].park(c)
		time.Sleep(time.Second)
		b[1].n.bulk = b[1]
		defer func() { b[1].n.bulk = nil }()
		b[1].n.moves.forgo(peer.ID(b[0].n.ID()), time.Now().Add(-2*time.Second))
		synctest.Wait()
		if known(b[1]) != 1 {
			t.Error("a connection is ended that was opened since")
		}
		b[1].n.moves.forgo(peer.ID(b[0].n.ID()), time.Now())
		synctest.Wait()
		if known(b[1]) != 0 {
			t.Error("a connection of before the move is kept")
		}
	})
}

// TestBrokenByAMove: over QUIC a packet that cannot leave ends the connection before the move is noticed. The other side is to hear of it all the same.
func TestBrokenByAMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, a, b := members(t)
		sendsFrom(a, before)
		s.Cut(0, 1)
		for _, c := range a.host.Network().ConnsToPeer(peer.ID(b.ID())) {
			_ = c.Close()
		}
		time.Sleep(100 * time.Millisecond)
		s.Heal(0, 1)
		a.moves.look(only(after), time.Now())
		time.Sleep(time.Second)
		if !connected(a, b) {
			t.Error("not connected again")
		}
		if now := b.host.Network().ConnsToPeer(peer.ID(a.ID())); len(now) != 1 {
			t.Errorf("the other side has %v", now)
		}
	})
}

// TestADialIsBegunAnewAfterAMove: what was sent between two networks is lost, and libp2p would wait for it.
func TestADialIsBegunAnewAfterAMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := pair(t)
		sendsFrom(a, before)
		addrs := a.host.Peerstore().Addrs(peer.ID(b.ID()))
		for _, c := range a.host.Network().Conns() {
			_ = c.Close()
		}
		a.host.Peerstore().ClearAddrs(peer.ID(b.ID()))
		a.host.Peerstore().AddAddr(peer.ID(b.ID()), multiaddr.StringCast("/ip4/1.2.3.4/udp/9/quic-v1"), time.Hour)
		began, took := time.Now(), make(chan time.Duration)
		go func() {
			if err := a.connect(t.Context(), peer.AddrInfo{ID: peer.ID(b.ID())}); err != nil {
				t.Error(err)
			}
			took <- time.Since(began)
		}()
		time.Sleep(100 * time.Millisecond)
		a.host.Peerstore().ClearAddrs(peer.ID(b.ID()))
		a.host.Peerstore().AddAddrs(peer.ID(b.ID()), addrs, time.Hour)
		a.moves.look(only(after), time.Now())
		if d := <-took; d > time.Second {
			t.Errorf("it took %v", d)
		}
	})
}

// TestWhoWasLeftIsForgotten: those who never come back are not remembered, nor dialled at each move, for ever.
func TestWhoWasLeftIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, _ := pair(t)
		sendsFrom(a, before)
		a.moves.mu.Lock()
		a.moves.mu.left["gone"] = time.Now().Add(-maxMoveAge - time.Second)
		a.moves.mu.left["just gone"] = time.Now()
		a.moves.mu.Unlock()
		a.moves.look(only(after), time.Now())
		a.moves.mu.Lock()
		defer a.moves.mu.Unlock()
		_, old := a.moves.mu.left["gone"]
		if _, late := a.moves.mu.left["just gone"]; old || !late {
			t.Errorf("one of long ago: %v, one of now: %v", old, late)
		}
	})
}

// TestADialGoesOnWhereNothingItNeedsWent: an address that comes, or one that cannot be what it is sent from and goes, begins no dial anew at once.
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
			a.moves.had = c.had
			a.host.Peerstore().AddAddr("left", multiaddr.StringCast("/ip4/1.2.3.4/udp/9/quic-v1"), time.Hour)
			a.moves.mu.Lock()
			a.moves.mu.left["left"] = time.Now()
			a.moves.mu.Unlock()
			ctx, over := a.arrivals.dialling(t.Context(), "left")
			defer over()
			a.moves.look(c.have, time.Now())
			if anew := ctx.Err() != nil; anew != c.anew {
				t.Errorf("%s: that the dial begins anew is %v", name, anew)
			}
			a.moves.look(c.have, time.Now().Add(moveStuck))
			if ctx.Err() == nil {
				t.Errorf("%s: a dial that is stuck goes on", name)
			}
		})
	}
}
