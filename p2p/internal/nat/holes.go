package nat

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/host/observedaddrs"
	"github.com/libp2p/go-libp2p/p2p/protocol/holepunch"
	"github.com/libp2p/go-libp2p/p2p/protocol/identify"
	"github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"github.com/p2pdiloco/p2pdiloco/p2p/internal/peers"
)

// holeTimeout is for one dial, and for one try to punch a hole: long enough for two SYNs that are
// sent again.
const holeTimeout = 5 * time.Second

// Holes is libp2p's DCUtR service. It tries once, when a relayed connection comes in; a try fails
// for good where one of the two does not know yet how it is seen from outside, which takes a peer
// about two seconds. So connections are reported to it again, for which the host's own service
// gives no handle.
type Holes struct {
	service *holepunch.Service
	// how others see this peer; nil where the service was given addresses
	seen *observedaddrs.Manager
	mu   struct {
		sync.Mutex
		// the service's: nil until this peer knows a public address of its own
		news network.Notifiee
	}
}

func (h *Holes) close() {
	if h.service != nil {
		_ = h.service.Close()
	}
	if h.seen != nil {
		_ = h.seen.Close()
	}
}

// again tries once more to make a direct connection beside a relayed one that came in: by dialling,
// then by punching. It does not wait, and says whether it began.
func (h *Holes) again(c network.Conn, nw network.Network) bool {
	h.mu.Lock()
	news := h.mu.news
	h.mu.Unlock()
	if news == nil {
		return false
	}
	news.Connected(nw, c)
	return true
}

// holesHost and holesNetwork are the host as the service has it, which asks for news of
// connections.
type holesHost struct {
	host.Host
	holes *Holes
}

// Network implements host.Host.
func (h holesHost) Network() network.Network { return holesNetwork{h.Host.Network(), h.holes} }

type holesNetwork struct {
	network.Network
	holes *Holes
}

// Notify implements network.Network.
func (n holesNetwork) Notify(news network.Notifiee) {
	n.holes.mu.Lock()
	n.holes.mu.news = news
	n.holes.mu.Unlock()
	n.Network.Notify(news)
}

// PunchHoles opens the holes of a host of libp2p's that makes none by itself.
func (n *NAT) PunchHoles(announce []string) error {
	own, ok := n.env.Host.(interface{ AllAddrs() []multiaddr.Multiaddr })
	if !ok {
		return errors.New("punching holes: this version of libp2p makes another kind of host")
	}
	seen, err := observedaddrs.NewManager(n.env.Host.EventBus(), n.env.Host.Network())
	if err != nil {
		return fmt.Errorf("punching holes: %w", err)
	}
	seen.Start(n.env.Host.Network())
	n.holes.seen = seen
	announced := peers.Announcing(announce)
	return n.PunchAt(func() []multiaddr.Multiaddr {
		// one that sees it is enough: nothing is lost by a vain try
		addrs := append(announced(own.AllAddrs()), seen.Addrs(1)...)
		return slices.DeleteFunc(multiaddr.Unique(addrs),
			func(a multiaddr.Multiaddr) bool { return !manet.IsPublicAddr(a) })
	}, holepunch.WithTracer(n.punched), holepunch.WithAddrFilter(&punchAddrs{guesses: n.env.Guesses}))
}

// PunchAt opens the holes of a host that makes none by itself and has these public addresses, those
// seen by one other peer included.
func (n *NAT) PunchAt(addrs func() []multiaddr.Multiaddr, opts ...holepunch.Option) (err error) {
	own, ok := n.env.Host.(interface{ IDService() identify.IDService })
	if !ok {
		return errors.New("punching holes: this version of libp2p makes another kind of host")
	}
	n.holes.service, err = holepunch.NewService(holesHost{n.env.Host, n.holes}, own.IDService(), addrs,
		append(opts, holepunch.DirectDialTimeout(holeTimeout))...)
	return err
}

// punchAddrs says which addresses holes are punched between. It implements holepunch.AddrFilter.
type punchAddrs struct {
	guesses func(seen []multiaddr.Multiaddr) []multiaddr.Multiaddr // of TCP
	// this peer has announced an address of QUIC, the last time
	quic atomic.Bool
}

// FilterLocal adds TCP's addresses to those that are announced.
func (p *punchAddrs) FilterLocal(_ peer.ID, addrs []multiaddr.Multiaddr) []multiaddr.Multiaddr {
	p.quic.Store(slices.ContainsFunc(addrs, peers.OverQUIC))
	return multiaddr.Unique(append(addrs, p.guesses(addrs)...))
}

// FilterRemote leaves TCP's addresses out where both have QUIC: of two connections that come about
// at once, the end of one might be taken for the peer's.
func (p *punchAddrs) FilterRemote(_ peer.ID, addrs []multiaddr.Multiaddr) []multiaddr.Multiaddr {
	if p.quic.Load() && slices.ContainsFunc(addrs, peers.OverQUIC) {
		return slices.DeleteFunc(slices.Clone(addrs), peers.OverTCP)
	}
	return addrs
}

// punched remembers which connections came of holes punched.
type punched struct {
	at *lru.Cache[peer.ID, time.Time]
} // newest success with a peer

func newPunched() *punched {
	at, _ := lru.New[peer.ID, time.Time](maxPunched) // fails for a size of 0
	return &punched{at}
}

const maxPunched = 1024 // peers that are remembered

// Trace implements holepunch.EventTracer.
func (p *punched) Trace(e *holepunch.Event) {
	if end, ok := e.Evt.(*holepunch.EndHolePunchEvt); ok && end.Success {
		p.at.Add(e.Remote, time.Now())
	}
}

// punchTime is how long before the report of a success its connection may have been opened, and how
// long after it the other side's.
const punchTime = 15 * time.Second

// made says whether a direct connection came of a hole punched.
func (p *punched) made(c network.Conn) bool {
	at, ok := p.at.Peek(c.RemotePeer())
	return ok && c.Stat().Opened.Sub(at).Abs() < punchTime
}

const (
	// outwardTerm is for how long after a connection to an address a router may let in what comes
	// from there.
	outwardTerm = 10 * time.Minute
	maxOutward  = 4096 // addresses that are remembered
)

// inbound knows whether somebody has come to this peer from outside by itself: a member or a
// bootstrap node, not through a hole punched, and from a public address to which this peer itself
// had no connection lately. A router lets those in.
type inbound struct {
	env     Env
	punched *punched
	mu      struct {
		sync.Mutex
		outward map[netip.Addr]time.Time // when a connection to an address was there last
	}
}

func newInbound(env Env, p *punched) *inbound {
	in := &inbound{env: env, punched: p}
	in.mu.outward = make(map[netip.Addr]time.Time)
	note := func(_ network.Network, c network.Conn) {
		if isOutward(c) {
			in.wentTo(peers.IP(c.RemoteMultiaddr()), time.Now())
		}
	}
	env.Notify(&network.NotifyBundle{ConnectedF: note, DisconnectedF: note})
	return in
}

func isOutward(c network.Conn) bool {
	return c.Stat().Direction != network.DirInbound && !peers.IsRelayed(c.RemoteMultiaddr())
}

func (in *inbound) wentTo(ip netip.Addr, now time.Time) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.mu.outward) >= maxOutward {
		maps.DeleteFunc(in.mu.outward, func(_ netip.Addr, at time.Time) bool { return now.Sub(at) > outwardTerm })
	}
	if len(in.mu.outward) < maxOutward {
		in.mu.outward[ip] = now
	}
}

// came says whether such a connection is there. One is judged when it has lasted for a while: that
// a hole was punched is reported after its connection.
func (in *inbound) came(now time.Time) bool {
	conns := in.env.Host.Network().Conns()
	for _, c := range conns {
		if isOutward(c) {
			in.wentTo(peers.IP(c.RemoteMultiaddr()), now)
		}
	}
	for _, c := range conns {
		if c.Stat().Direction == network.DirInbound && now.Sub(c.Stat().Opened) > punchTime &&
			!peers.IsRelayed(c.RemoteMultiaddr()) && manet.IsPublicAddr(c.RemoteMultiaddr()) &&
			!in.punched.made(c) && in.env.trusted(c.RemotePeer()) && !in.was(c) {
			return true
		}
	}
	return false
}

// was says whether this peer had a connection to the address of another one, less than outwardTerm
// before that or since.
func (in *inbound) was(c network.Conn) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	at, went := in.mu.outward[peers.IP(c.RemoteMultiaddr())]
	return went && c.Stat().Opened.Sub(at) < outwardTerm || len(in.mu.outward) >= maxOutward
}
