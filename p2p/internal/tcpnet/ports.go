package tcpnet

import (
	"net"
	"net/netip"
	"sync"

	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	"github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"github.com/p2pdiloco/p2pdiloco/p2p/internal/addr"
)

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

// to is the local address to punch a hole to another one from.
func (p *Ports) to(a multiaddr.Multiaddr) (from netip.AddrPort, ok bool) {
	to := addr.IP(a)
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
	if from, ok := p.to(to); ok {
		d.LocalAddr = net.TCPAddrFromAddrPort(from)
	}
	return d, nil
}

// Guesses are where TCP's ports may be reached from outside, by what was seen of QUIC's: most
// routers keep a port that is free.
func (p *Ports) Guesses(seen []multiaddr.Multiaddr) (addrs []multiaddr.Multiaddr) {
	for _, a := range seen {
		ip := addr.IP(a)
		if !ip.IsValid() || addr.OverTCP(a) {
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
