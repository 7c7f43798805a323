package sim

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/event"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/transport/quicreuse"
	"github.com/marcopolo/simnet"
	"github.com/multiformats/go-multiaddr"
	"github.com/quic-go/quic-go"
	"go.uber.org/fx"
)

// node is a host as the network knows it. In memory it is the host's transport and listener.
type node struct {
	net   *Net
	index int
	ip    net.IP
	rate  int // bits a second
	id    peer.ID
	// of a host that sends packets
	sockets []*simnet.SimConn

	addr      multiaddr.Multiaddr // it listens there
	conns     chan *memoryConn    // made by others, not accepted yet
	listening context.Context     // ends with stop
	stop      context.CancelFunc

	// guarded by the network's lock
	frozen bool
	walled bool          // lets in packets only from hosts to which it has sent
	slow   time.Duration // added to the latency of every packet to or from it
	free   time.Time     // from when on its link, over which it sends, takes more
}

// host makes the libp2p host. Its address is the only one that it listens on.
func (n *node) host() (host.Host, error) {
	addr, carrier := "/ip4/%s/tcp/8000", libp2p.Transport(func() *node { return n })
	if n.net.wire != nil {
		addr, carrier = "/ip4/%s/udp/8000/quic-v1", n.simulatedQUIC()
	}
	c := &circuits{}
	h, err := libp2p.New(append([]libp2p.Option{
		libp2p.ListenAddrStrings(fmt.Sprintf(addr, n.ip)),
		carrier,
		libp2p.DisableRelay(),
		libp2p.AddrsFactory(c.announce),
		libp2p.DisableIdentifyAddressDiscovery(), // it stalls synctest
		libp2p.ResourceManager(&network.NullResourceManager{}),
		libp2p.DisableMetrics(),
		libp2p.UDPBlackHoleSuccessCounter(nil), // as in package p2p
	}, n.net.Options...)...)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.news, err = h.EventBus().Subscribe(new(event.EvtAutoRelayAddrsUpdated))
	return h, err
}

// circuits are a host's addresses through relays, which it announces besides its own, as those of
// package p2p do. It does not use relays by itself.
type circuits struct {
	mu    sync.Mutex
	news  event.Subscription // nil: of nobody yet
	addrs []multiaddr.Multiaddr
}

func (c *circuits) announce(addrs []multiaddr.Multiaddr) []multiaddr.Multiaddr {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.news != nil && len(c.news.Out()) > 0 {
		c.addrs = (<-c.news.Out()).(event.EvtAutoRelayAddrsUpdated).RelayAddrs
	}
	return slices.Concat(addrs, c.addrs)
}

// simulatedQUIC replaces libp2p's UDP sockets. A connection manager that is passed in must be
// closed by the one that passes it.
func (n *node) simulatedQUIC() libp2p.Option {
	link := simnet.LinkSettings{BitsPerSecond: n.rate}
	return libp2p.QUICReuse(
		func(l fx.Lifecycle, reset quic.StatelessResetKey, token quic.TokenGeneratorKey,
			opts ...quicreuse.Option,
		) (*quicreuse.ConnManager, error) {
			m, err := quicreuse.NewConnManager(reset, token, opts...)
			if err != nil {
				return nil, err
			}
			l.Append(fx.StopHook(m.Close))
			return m, nil
		},
		quicreuse.OverrideSourceIPSelector(func() (quicreuse.SourceIPSelector, error) { return n, nil }),
		quicreuse.OverrideListenUDP(func(_ string, a *net.UDPAddr) (net.PacketConn, error) {
			c := n.net.wire.NewEndpoint(a, simnet.NodeBiDiLinkSettings{Downlink: link, Uplink: link})
			n.sockets = append(n.sockets, c)
			return c, nil
		}),
	)
}

// PreferredSourceIPForDestination implements quicreuse.SourceIPSelector.
func (n *node) PreferredSourceIPForDestination(*net.UDPAddr) (net.IP, error) { return n.ip, nil }
