package bulk

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/transport"
	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	"github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"github.com/p2pdiloco/p2pdiloco/p2p/internal/peers"
)

// Transport is libp2p's TCP transport, whose port takes bulk connections as well: these begin with
// a TLS ClientHello, those of libp2p with multistream-select. go-libp2p's own demultiplexer
// (tcpreuse.ConnMgr) is not used: 64 connections that say nothing hold up all others there.
type Transport struct {
	*tcp.TcpTransport
	upgrader transport.Upgrader
	inlet    Inlet
	ports    *Ports
	punching *tcp.TcpTransport // dials from ports
	// libp2p makes a second transport, for tries of others' addresses under another name: that one
	// does not listen, and so it does not dial from ports
	listens atomic.Bool
}

// NewTransport returns a constructor for libp2p.Transport.
func NewTransport(ports *Ports, inlet Inlet) func(transport.Upgrader, network.ResourceManager) (*Transport, error) {
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
	if _, can := t.ports.localAddress(a); can && t.listens.Load() && (punch || t.ports.observes(a)) {
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

// Holes for TCP are punched from the port that is listened on: two SYNs that cross in the routers
// become one connection, in which DCUtR has said which side is TLS's server. In all other dials
// both ends would take the client's side, so these have ports of their own, except for one: that to
// a bootstrap node, which reports how the router translates the port. If it fails it is tried from
// another port.
//
// QUIC is better at this. So TCP's addresses are always announced for punching, and used where
// one of the two has none of QUIC's.

// Ports are the local addresses from which holes are punched.
type Ports struct {
	observes func(multiaddr.Multiaddr) bool
	mu       struct {
		sync.Mutex
		listening []netip.AddrPort
	}
}

// NewPorts is for the transport of one host. observes says whether the node at an address may
// report how a router translates this peer's port.
func NewPorts(observes func(multiaddr.Multiaddr) bool) *Ports { return &Ports{observes: observes} }

// listen listens on a port that can be dialled from too. Whether it can is the system's affair:
// where it cannot, there are no holes. The option is set when the port is had, so that another
// program that listens there is noticed.
func (p *Ports) listen(a multiaddr.Multiaddr) (manet.Listener, error) {
	nw, addr, err := manet.DialArgs(a)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen(nw, addr)
	if err != nil {
		return nil, err
	}
	if t, ok := l.(*net.TCPListener); ok {
		if raw, err := t.SyscallConn(); err == nil && sharePort(nw, addr, raw) == nil {
			p.mu.Lock()
			p.mu.listening = append(p.mu.listening, t.Addr().(*net.TCPAddr).AddrPort())
			p.mu.Unlock()
		}
	}
	return manet.WrapNetListener(l)
}

// localAddress is the local address to punch a hole to another one from.
func (p *Ports) localAddress(a multiaddr.Multiaddr) (from netip.AddrPort, ok bool) {
	to := peers.IP(a)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.mu.listening {
		ip := l.Addr().Unmap()
		if ip.Is4() == to.Is4() && ip.IsLoopback() == to.IsLoopback() || ip.IsUnspecified() && ip.Is4() == to.Is4() {
			return netip.AddrPortFrom(ip, l.Port()), true
		}
	}
	return from, false
}

// dialer is for tcp.WithDialerForAddr.
func (p *Ports) dialer(to multiaddr.Multiaddr) (tcp.ContextDialer, error) {
	d := &net.Dialer{Control: sharePort}
	if from, ok := p.localAddress(to); ok {
		d.LocalAddr = net.TCPAddrFromAddrPort(from)
	}
	return d, nil
}

// Guesses are where TCP's ports may be reached from outside, by what was seen of QUIC's: most
// routers keep a port that is free. There are none of nil Ports.
func (p *Ports) Guesses(seen []multiaddr.Multiaddr) (addrs []multiaddr.Multiaddr) {
	if p == nil {
		return nil
	}
	for _, a := range seen {
		ip := peers.IP(a)
		if !ip.IsValid() || peers.OverTCP(a) {
			continue
		}
		if from, ok := p.localAddress(a); ok {
			if g, err := manet.FromNetAddr(net.TCPAddrFromAddrPort(netip.AddrPortFrom(ip, from.Port()))); err == nil {
				addrs = append(addrs, g)
			}
		}
	}
	return addrs
}
