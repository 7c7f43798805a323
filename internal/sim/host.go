package sim

import (
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/event"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/p2p/transport/quicreuse"
	"github.com/marcopolo/simnet"
	"github.com/multiformats/go-multiaddr"
	"github.com/quic-go/quic-go"
	"go.uber.org/fx"
)

// packetConn is a simulated socket that loses what goes over a cut link.
type packetConn struct {
	*simnet.SimConn
	net  *Net
	from int
}

func (c *packetConn) WriteTo(b []byte, to net.Addr) (int, error) {
	if c.net.dropped(c.from, to) {
		return len(b), nil
	}
	return c.SimConn.WriteTo(b, to)
}

// circuits are a host's addresses through relays, which it announces besides its own, as those of
// package p2p do. It does not use relays by itself.
type circuits struct {
	mu    sync.Mutex
	news  event.Subscription // nil: of nobody yet
	addrs []multiaddr.Multiaddr
}

// relayed makes a host with circuits.
func relayed(opts ...libp2p.Option) (host.Host, error) {
	c := &circuits{}
	h, err := libp2p.New(append([]libp2p.Option{libp2p.DisableRelay(), libp2p.AddrsFactory(c.announce)}, opts...)...)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.news, err = h.EventBus().Subscribe(new(event.EvtAutoRelayAddrsUpdated))
	return h, err
}

func (c *circuits) announce(addrs []multiaddr.Multiaddr) []multiaddr.Multiaddr {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.news != nil {
		select {
		case e := <-c.news.Out():
			c.addrs = e.(event.EvtAutoRelayAddrsUpdated).RelayAddrs
			continue
		default:
		}
		break
	}
	return slices.Concat(addrs, c.addrs)
}

// newHost makes a libp2p host whose only socket is made by listen.
func newHost(ip net.IP, listen func(*net.UDPAddr) net.PacketConn, more []libp2p.Option) (host.Host, error) {
	return relayed(append([]libp2p.Option{
		libp2p.ListenAddrStrings(fmt.Sprintf("/ip4/%s/udp/8000/quic-v1", ip)),
		simulatedQUIC(listen),
		libp2p.DisableIdentifyAddressDiscovery(), // it stalls synctest
		libp2p.ResourceManager(&network.NullResourceManager{}),
		libp2p.DisableMetrics(),
		libp2p.UDPBlackHoleSuccessCounter(nil), // as in package p2p
	}, more...)...)
}

// simulatedQUIC replaces libp2p's UDP sockets. A connection manager that is passed in must be
// closed by the one that passes it.
func simulatedQUIC(listen func(*net.UDPAddr) net.PacketConn) libp2p.Option {
	source := &sourceIP{}
	opts := []quicreuse.Option{
		quicreuse.OverrideSourceIPSelector(func() (quicreuse.SourceIPSelector, error) { return source, nil }),
		quicreuse.OverrideListenUDP(func(_ string, a *net.UDPAddr) (net.PacketConn, error) {
			source.ip.Store(&a.IP)
			return listen(a), nil
		}),
	}
	return libp2p.QUICReuse(func(l fx.Lifecycle, reset quic.StatelessResetKey, token quic.TokenGeneratorKey,
		opts ...quicreuse.Option,
	) (*quicreuse.ConnManager, error) {
		m, err := quicreuse.NewConnManager(reset, token, opts...)
		if err != nil {
			return nil, err
		}
		l.Append(fx.StopHook(m.Close))
		return m, nil
	}, opts...)
}

// sourceIP is the address that QUIC sends from.
type sourceIP struct{ ip atomic.Pointer[net.IP] }

func (s *sourceIP) PreferredSourceIPForDestination(*net.UDPAddr) (net.IP, error) {
	return *s.ip.Load(), nil
}
