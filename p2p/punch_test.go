package p2p

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
)

// onTCP is a Network that listens on one TCP port of the loopback device.
func onTCP(t *testing.T) (n *Network, addr multiaddr.Multiaddr) {
	t.Helper()
	cfg := LAN()
	cfg.Listen = []string{"/ip4/127.0.0.1/tcp/0"}
	n = loopback(t, cfg)
	addrs := n.host.Network().ListenAddresses()
	return n, addrs[slices.IndexFunc(addrs, overTCP)]
}

func punch(ctx context.Context, n *Network, to peer.ID, a multiaddr.Multiaddr, client bool) (network.Conn, error) {
	ctx = network.WithForceDirectDial(network.WithSimultaneousConnect(ctx, client, "test"), "test")
	n.host.Peerstore().AddAddr(to, a, time.Hour)
	return n.host.Network().DialPeer(ctx, to)
}

// TestTCPHolesArePunchedFromThePortListenedOn: routers know no other. Who dials first meets the listener, whose side is the server's, so it is the client here.
func TestTCPHolesArePunchedFromThePortListenedOn(t *testing.T) {
	a, from := onTCP(t)
	b, to := onTCP(t)
	c, err := punch(bounded(t), a, peer.ID(b.ID()), to, true)
	if err != nil {
		t.Fatal(err)
	}
	if !c.LocalMultiaddr().Equal(from) {
		t.Errorf("dialled from %v, listens on %v", c.LocalMultiaddr(), from)
	}
	x, from := onTCP(t)
	y, to := onTCP(t)
	x.host.Peerstore().AddAddr(peer.ID(y.ID()), to, time.Hour)
	c, err = x.host.Network().DialPeer(bounded(t), peer.ID(y.ID()))
	if err != nil {
		t.Fatal(err)
	}
	if c.LocalMultiaddr().Equal(from) {
		t.Error("a dial that punches no hole is from the port listened on: two of them would meet, and both be clients")
	}
	_ = x.host.Network().ClosePeer(peer.ID(y.ID()))
	x.ranks.mu.quicFirst = map[string]bool{string(to.Bytes()): true}
	if c, err = x.host.Network().DialPeer(bounded(t), peer.ID(y.ID())); err != nil {
		t.Fatal(err)
	}
	if !c.LocalMultiaddr().Equal(from) {
		t.Error("a bootstrap node does not see the port that is listened on")
	}
}

// TestWhoCannotPunchDialsPlainly, if it is the client: between two ends there is one connection at a time. A server that dials plainly would meet a listener,
// which is one too.
func TestWhoCannotPunchDialsPlainly(t *testing.T) {
	for _, client := range []bool{true, false} {
		a, from := onTCP(t)
		b, to := onTCP(t)
		d, err := a.bulk.ports.Load().dialer(to)
		if err != nil {
			t.Fatal(err)
		}
		nw, addr, _ := manet.DialArgs(to)
		taken, err := d.DialContext(bounded(t), nw, addr)
		if err != nil {
			t.Fatal(err)
		}
		defer taken.Close() //nolint:errcheck // the test is over
		c, err := punch(bounded(t), a, peer.ID(b.ID()), to, client)
		if (err == nil) != client {
			t.Errorf("a client %v: %v", client, err)
		}
		if err == nil && c.LocalMultiaddr().Equal(from) {
			t.Error("two connections have the same ends")
		}
	}
}

func TestPunchAddrs(t *testing.T) {
	const quic, tcp, guess = "/ip4/1.2.3.4/udp/7/quic-v1", "/ip4/1.2.3.4/tcp/9", "/ip4/1.2.3.4/tcp/4009"
	a, _ := onTCP(t)
	nw := &tcpPorts{}
	nw.mu.listening = append(nw.mu.listening, netip.MustParseAddrPort("0.0.0.0:4009"))
	a.bulk.ports.Store(nw)
	f := &punchAddrs{n: a}
	for _, c := range []struct{ mine, told, theirs, used string }{
		{quic, guess + " " + quic, quic + " " + tcp, quic},
		{quic, guess + " " + quic, tcp, tcp},
		{tcp, tcp, quic + " " + tcp, quic + " " + tcp},
	} {
		if got := fmt.Sprint(f.FilterLocal("", multiaddrs(c.mine))); got != "["+c.told+"]" {
			t.Errorf("of %s is told %s, want %s", c.mine, got, c.told)
		}
		if got := fmt.Sprint(f.FilterRemote("", multiaddrs(c.theirs))); got != "["+c.used+"]" {
			t.Errorf("with %s, of %s is used %s, want %s", c.mine, c.theirs, got, c.used)
		}
	}
}

func multiaddrs(text string) (addrs []multiaddr.Multiaddr) {
	for s := range strings.FieldsSeq(text) {
		addrs = append(addrs, multiaddr.StringCast(s))
	}
	return addrs
}
