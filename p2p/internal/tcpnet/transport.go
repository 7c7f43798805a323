package tcpnet

import (
	"context"
	"sync/atomic"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/transport"
	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	"github.com/multiformats/go-multiaddr"
)

// Transport is libp2p's TCP transport, whose port takes bulk connections as well: these begin with
// a TLS ClientHello, those of libp2p with multistream-select. go-libp2p's own demultiplexer
// (tcpreuse.ConnMgr) is not used: 64 connections that say nothing hold up all others there.
type Transport struct {
	*tcp.TcpTransport
	upgrader transport.Upgrader
	inlet    *Inlet
	ports    *Ports
	punching *tcp.TcpTransport // dials from ports
	// libp2p makes a second transport, for tries of others' addresses under another name: that one
	// does not listen, and so it does not dial from ports
	listens atomic.Bool
}

// New returns a constructor for libp2p.Transport.
func New(ports *Ports, inlet *Inlet) func(transport.Upgrader, network.ResourceManager) (*Transport, error) {
	return func(u transport.Upgrader, limits network.ResourceManager) (*Transport, error) {
		plain, err := tcp.NewTCPTransport(u, limits, nil, tcp.DisableReuseport())
		if err != nil {
			return nil, err
		}
		punching, err := tcp.NewTCPTransport(u, limits, nil, tcp.DisableReuseport(),
			tcp.WithDialerForAddr(ports.dialer))
		return &Transport{TcpTransport: plain, upgrader: u, inlet: inlet, ports: ports, punching: punching}, err
	}
}

// Listen implements transport.Transport.
func (t *Transport) Listen(a multiaddr.Multiaddr) (transport.Listener, error) {
	t.listens.Store(true)
	l, err := t.ports.listen(a)
	if err != nil {
		return nil, err
	}
	return t.upgrader.UpgradeGatedMaListener(t, demultiplex(t.upgrader.GateMaListener(l), t.inlet)), nil
}

// DialWithUpdates implements transport.DialUpdater.
func (t *Transport) DialWithUpdates(ctx context.Context, a multiaddr.Multiaddr, id peer.ID,
	updates chan<- transport.DialUpdate,
) (transport.CapableConn, error) {
	punch, client, _ := network.GetSimultaneousConnect(ctx)
	if _, can := t.ports.to(a); can && t.listens.Load() && (punch || t.ports.observes(a)) {
		c, err := t.punching.DialWithUpdates(ctx, a, id, updates)
		if err == nil || ctx.Err() != nil || punch && !client { // a server's dial is not waited for
			return c, err
		}
	}
	return t.TcpTransport.DialWithUpdates(ctx, a, id, updates)
}

// Dial implements transport.Transport.
func (t *Transport) Dial(ctx context.Context, a multiaddr.Multiaddr, id peer.ID) (transport.CapableConn, error) {
	return t.DialWithUpdates(ctx, a, id, nil)
}
