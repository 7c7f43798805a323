package bulk

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"github.com/p2pdiloco/p2pdiloco/p2p/internal/peers"
)

// listener is a host that listens on one TCP port of the loopback device.
type listener struct {
	host.Host
	ports *Ports
}

// onTCP makes one that observes nodes at some addresses.
func onTCP(t *testing.T, observes func(multiaddr.Multiaddr) bool) (l listener, on multiaddr.Multiaddr) {
	t.Helper()
	ports := NewPorts(observes)
	h, err := libp2p.New(libp2p.Transport(NewTransport(ports, make(Inlet))), libp2p.NoListenAddrs,
		libp2p.DisableMetrics())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	if err := h.Network().Listen(multiaddr.StringCast("/ip4/127.0.0.1/tcp/0")); err != nil {
		t.Fatal(err)
	}
	addrs := h.Network().ListenAddresses()
	return listener{h, ports}, addrs[slices.IndexFunc(addrs, peers.OverTCP)]
}

func nobody(multiaddr.Multiaddr) bool { return false }

func punch(ctx context.Context, n listener, to peer.ID, a multiaddr.Multiaddr, client bool) (network.Conn, error) {
	ctx = network.WithForceDirectDial(network.WithSimultaneousConnect(ctx, client, "test"), "test")
	n.Peerstore().AddAddr(to, a, time.Hour)
	return n.Network().DialPeer(ctx, to)
}

// TestTCPHolesArePunchedFromThePortListenedOn: routers know no other. Who dials first meets the
// listener, whose side is the server's, so it is the client here.
func TestTCPHolesArePunchedFromThePortListenedOn(t *testing.T) {
	a, from := onTCP(t, nobody)
	b, to := onTCP(t, nobody)
	c, err := punch(bounded(t), a, b.ID(), to, true)
	if err != nil {
		t.Fatal(err)
	}
	if !c.LocalMultiaddr().Equal(from) {
		t.Errorf("dialled from %v, listens on %v", c.LocalMultiaddr(), from)
	}
	y, to := onTCP(t, nobody)
	bootstrap := false
	x, from := onTCP(t, func(a multiaddr.Multiaddr) bool { return bootstrap && a.Equal(to) })
	x.Peerstore().AddAddr(y.ID(), to, time.Hour)
	c, err = x.Network().DialPeer(bounded(t), y.ID())
	if err != nil {
		t.Fatal(err)
	}
	if c.LocalMultiaddr().Equal(from) {
		t.Error("a dial that punches no hole is from the port listened on: two of them would meet, and both be clients")
	}
	_ = x.Network().ClosePeer(y.ID())
	bootstrap = true
	if c, err = x.Network().DialPeer(bounded(t), y.ID()); err != nil {
		t.Fatal(err)
	}
	if !c.LocalMultiaddr().Equal(from) {
		t.Error("a bootstrap node does not see the port that is listened on")
	}
}

// TestWhoCannotPunchDialsPlainly, if it is the client: between two ends there is one connection at
// a time. A server that dials plainly would meet a listener, which is one too.
func TestWhoCannotPunchDialsPlainly(t *testing.T) {
	for _, client := range []bool{true, false} {
		a, from := onTCP(t, nobody)
		b, to := onTCP(t, nobody)
		d, err := a.ports.dialer(to)
		if err != nil {
			t.Fatal(err)
		}
		nw, addr, _ := manet.DialArgs(to)
		taken, err := d.DialContext(bounded(t), nw, addr)
		if err != nil {
			t.Fatal(err)
		}
		defer taken.Close() //nolint:errcheck // the test is over
		c, err := punch(bounded(t), a, b.ID(), to, client)
		if (err == nil) != client {
			t.Errorf("a client %v: %v", client, err)
		}
		if err == nil && c.LocalMultiaddr().Equal(from) {
			t.Error("two connections have the same ends")
		}
	}
}
