package p2p

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"sync"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/transport"
	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	"github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
)

// Holes for TCP are punched from the port that is listened on: two SYNs that cross in the routers become one connection, in which DCUtR has said who is
// TLS's server. In all other dials both ends would take the client's side, so these have ports of their own, except for one: that to a bootstrap node,
// which tells libp2p how the router translates the port. If it fails it is tried from another port.
//
// QUIC is better at this. So TCP's addresses are told to peers for punching always, and used where one of the two has none of QUIC's.

// tcpPorts are the local addresses from which holes are punched.
type tcpPorts struct {
	punching *tcp.TcpTransport // dials from them
	observe  func(multiaddr.Multiaddr) bool
	mu       struct {
		sync.Mutex
		listening []netip.AddrPort
	}
}

// listen listens on a port that can be dialled from too. Whether it can is the system's affair: where it cannot, there are no holes. The option is set when
// the port is had, so that another program that listens there is noticed.
func (p *tcpPorts) listen(a multiaddr.Multiaddr) (manet.Listener, error) {
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

// to is the local address to punch a hole to another one from.
func (p *tcpPorts) to(a multiaddr.Multiaddr) (from netip.AddrPort, ok bool) {
	to := ipOf(a)
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
func (p *tcpPorts) dialer(to multiaddr.Multiaddr) (tcp.ContextDialer, error) {
	d := &net.Dialer{Control: sharePort}
	if from, ok := p.to(to); ok {
		d.LocalAddr = net.TCPAddrFromAddrPort(from)
	}
	return d, nil
}

// DialWithUpdates implements transport.DialUpdater.
func (t *tcpTransport) DialWithUpdates(ctx context.Context, a multiaddr.Multiaddr, id peer.ID, updates chan<- transport.DialUpdate) (transport.CapableConn, error) {
	punch, client, _ := network.GetSimultaneousConnect(ctx)
	if _, can := t.ports.to(a); can && (punch || t.ports.observe(a)) {
		c, err := t.ports.punching.DialWithUpdates(ctx, a, id, updates)
		if err == nil || ctx.Err() != nil || punch && !client { // nobody waits for a server to dial
			return c, err
		}
	}
	return t.TcpTransport.DialWithUpdates(ctx, a, id, updates)
}

// Dial implements transport.Transport.
func (t *tcpTransport) Dial(ctx context.Context, a multiaddr.Multiaddr, id peer.ID) (transport.CapableConn, error) {
	return t.DialWithUpdates(ctx, a, id, nil)
}

// guesses are where TCP's ports may be reached from outside, by what was seen of QUIC's: most routers keep a port that is free.
func (p *tcpPorts) guesses(seen []multiaddr.Multiaddr) (addrs []multiaddr.Multiaddr) {
	for _, a := range seen {
		ip := ipOf(a)
		if !ip.IsValid() || overTCP(a) {
			continue
		}
		if from, ok := p.to(a); ok {
			if g, err := manet.FromNetAddr(net.TCPAddrFromAddrPort(netip.AddrPortFrom(ip, from.Port()))); err == nil {
				addrs = append(addrs, g)
			}
		}
	}
	return addrs
}

// punchAddrs says which addresses holes are punched between. It implements holepunch.AddrFilter.
type punchAddrs struct {
	n  *Network
	mu struct {
		sync.Mutex
		quic bool // this peer has told an address of QUIC, the last time
	}
}

// FilterLocal adds TCP's addresses to those that are told.
func (p *punchAddrs) FilterLocal(_ peer.ID, addrs []multiaddr.Multiaddr) []multiaddr.Multiaddr {
	quic := slices.ContainsFunc(addrs, overQUIC)
	p.mu.Lock()
	p.mu.quic = quic
	p.mu.Unlock()
	if p.n.bulk != nil {
		if ports := p.n.bulk.ports.Load(); ports != nil {
			addrs = append(addrs, ports.guesses(addrs)...)
		}
	}
	return multiaddr.Unique(addrs)
}

// FilterRemote leaves TCP's addresses out where both have QUIC: of two connections that come about at once, the end of one might be taken for the peer's.
func (p *punchAddrs) FilterRemote(_ peer.ID, addrs []multiaddr.Multiaddr) []multiaddr.Multiaddr {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.quic && slices.ContainsFunc(addrs, overQUIC) {
		return slices.DeleteFunc(slices.Clone(addrs), overTCP)
	}
	return addrs
}

func overQUIC(a multiaddr.Multiaddr) bool {
	_, err := a.ValueForProtocol(multiaddr.P_QUIC_V1)
	return err == nil && !isRelayed(a)
}
