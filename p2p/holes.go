package p2p

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	basichost "github.com/libp2p/go-libp2p/p2p/host/basic"
	"github.com/libp2p/go-libp2p/p2p/protocol/holepunch"
	"github.com/libp2p/go-libp2p/p2p/protocol/identify"
	"github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
	"go.uber.org/fx"
)

// holeTimeout is for one dial, and for one try to punch a hole: long enough for two SYNs that are sent again.
const holeTimeout = 5 * time.Second

// holes are libp2p's DCUtR service. It tries once, when a relayed connection comes in; a try fails for good where one of the two does not know yet how it is
// seen from outside, which takes a peer about two seconds. So it is told of connections again, for which the host's own service gives no handle.
type holes struct {
	service *holepunch.Service
	mu      struct {
		sync.Mutex
		news network.Notifiee // the service's: nil until this peer knows a public address of its own
	}
}

// open starts it on a host that has none. addrs are the public addresses of this peer, those seen by one other peer included.
func (h *holes) open(on host.Host, ids identify.IDService, addrs func() []multiaddr.Multiaddr, opts ...holepunch.Option) (err error) {
	h.service, err = holepunch.NewService(holesHost{on, h}, ids, addrs, append(opts, holepunch.DirectDialTimeout(holeTimeout))...)
	return err
}

func (h *holes) close() {
	if h.service != nil {
		_ = h.service.Close()
	}
}

// again tries once more to make a direct connection beside a relayed one that came in: by dialling, then by punching. It does not wait, and says whether it began.
func (h *holes) again(c network.Conn, nw network.Network) bool {
	h.mu.Lock()
	news := h.mu.news
	h.mu.Unlock()
	if news == nil {
		return false
	}
	news.Connected(nw, c)
	return true
}

// holesHost and holesNetwork are the host as the service has it, which asks for news of connections.
type holesHost struct {
	host.Host
	holes *holes
}

// Network implements host.Host.
func (h holesHost) Network() network.Network { return holesNetwork{h.Host.Network(), h.holes} }

type holesNetwork struct {
	network.Network
	holes *holes
}

// Notify implements network.Network.
func (n holesNetwork) Notify(news network.Notifiee) {
	n.holes.mu.Lock()
	n.holes.mu.news = news
	n.holes.mu.Unlock()
	n.Network.Notify(news)
}

// seenAs has libp2p leave where this peer's addresses are, as others see them.
func seenAs(at *basichost.ObservedAddrsManager) libp2p.Option {
	return libp2p.WithFxOption(fx.Invoke(func(seen basichost.ObservedAddrsManager) { *at = seen }))
}

// punchHoles opens the holes of a host that newHost made.
func (n *Network) punchHoles(seen basichost.ObservedAddrsManager) error {
	own, ok := n.host.(interface {
		IDService() identify.IDService
		AllAddrs() []multiaddr.Multiaddr
	})
	if !ok {
		return errors.New("punching holes: this version of libp2p makes another kind of host")
	}
	announced := announcing(n.cfg.Announce)
	public := func() []multiaddr.Multiaddr {
		addrs := append(announced(own.AllAddrs()), seen.Addrs(1)...) // one that sees it is enough: nothing is lost by a vain try
		return slices.DeleteFunc(multiaddr.Unique(addrs), func(a multiaddr.Multiaddr) bool { return !manet.IsPublicAddr(a) })
	}
	return n.holes.open(n.host, own.IDService(), public, holepunch.WithTracer(&n.punches), holepunch.WithAddrFilter(&punchAddrs{n: n}))
}
