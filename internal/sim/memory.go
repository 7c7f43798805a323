package sim

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/transport"
	"github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
)

// idleTimeout is the time for which a connection over a cut link looks alive, as in QUIC.
const idleTimeout = 30 * time.Second

// resetAfter is the time until a living end sends something over a whole link and learns that the
// other end is gone.
const resetAfter = 100 * time.Millisecond

// handshake is the number of round trips that a connection takes: one of TCP, one of TLS, one of a
// muxer.
const handshake = 3

var errRefused = errors.New("connection refused")

// memory is a network of hosts with streams that are queues in memory.
type memory struct {
	net     *Net
	latency time.Duration
	mu      struct {
		sync.Mutex
		hosts []*memoryHost
		conns map[*memoryConn]struct{}
	}
}

// memoryHost is a host's link and its transport.
type memoryHost struct {
	memory *memory
	index  int
	addr   multiaddr.Multiaddr
	id     peer.ID
	link   link
	mu     struct {
		sync.Mutex
		listener *memoryListener
	}
}

var _ transport.Transport = (*memoryHost)(nil)

// NewMemory is New, with hosts of which no packets are simulated: what one writes to a stream comes
// out at the other end after the time that it takes on the links. There is neither encryption nor
// loss nor a handshake but for its round trips, which makes it many times faster. Swarm, identify
// and multistream are libp2p's.
func NewMemory(t testing.TB, n int, latency time.Duration) *Net {
	t.Helper()
	s := newNet(t)
	s.memory = &memory{net: s, latency: latency}
	s.memory.mu.conns = make(map[*memoryConn]struct{})
	t.Cleanup(s.close)
	for range n {
		s.Add()
	}
	return s
}

// add makes host i.
func (m *memory) add(i int, ip net.IP) (host.Host, error) {
	key, _, err := crypto.GenerateEd25519Key(nil)
	if err != nil {
		return nil, err
	}
	id, err := peer.IDFromPrivateKey(key)
	if err != nil {
		return nil, err
	}
	addr, err := multiaddr.NewMultiaddr(fmt.Sprintf("/ip4/%s/tcp/8000", ip))
	if err != nil {
		return nil, err
	}
	h := &memoryHost{memory: m, index: i, addr: addr, id: id, link: link{rate: m.net.rate()}}
	m.mu.Lock()
	m.mu.hosts = append(m.mu.hosts, h)
	m.mu.Unlock()
	return relayed(
		libp2p.Identity(key),
		libp2p.ListenAddrs(addr),
		libp2p.Transport(func() *memoryHost { return h }),
		libp2p.DisableIdentifyAddressDiscovery(),
		libp2p.ResourceManager(&network.NullResourceManager{}),
		libp2p.DisableMetrics(),
	)
}

// Dial implements transport.Transport.
func (h *memoryHost) Dial(ctx context.Context, to multiaddr.Multiaddr, id peer.ID) (transport.CapableConn, error) {
	other, err := h.memory.find(to)
	if err != nil {
		return nil, err
	}
	wait := time.NewTimer(handshake * 2 * h.memory.delay(h.index, other.index))
	defer wait.Stop()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-wait.C:
	}
	for h.memory.net.broken(h.index, other.index) { // the first packet is sent again
		wait.Reset(lostRetry)
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-wait.C:
		}
	}
	if other.id != id {
		return nil, fmt.Errorf("peer %s listens there, not %s", other.id, id)
	}
	return other.accept(h)
}

// find returns the host of an address.
func (m *memory) find(a multiaddr.Multiaddr) (*memoryHost, error) {
	addr, err := manet.ToNetAddr(a)
	if err != nil {
		return nil, err
	}
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return nil, errRefused
	}
	i, ok := m.net.hostOf(tcp.AddrPort().Addr())
	if !ok {
		return nil, errRefused
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.hosts[i], nil
}

// delay returns the latency from one host to another.
func (m *memory) delay(from, to int) time.Duration {
	return m.latency + m.net.slownessOf(from) + m.net.slownessOf(to)
}

// broken says whether packets between two hosts are lost in either direction.
func (s *Net) broken(i, j int) bool { return s.lost(i, j) || s.lost(j, i) }

// recheck waits for the time that it takes to notice a fault. Then it ends the connections with a
// cut link, or with an other end that is gone. An end over a whole link learns that the other one
// is gone as soon as it sends again.
func (m *memory) recheck() {
	time.AfterFunc(idleTimeout, func() {
		m.endAll(func(c *memoryConn) bool { return m.broken(c) || c.other.IsClosed() })
	})
	time.AfterFunc(resetAfter, func() {
		m.endAll(func(c *memoryConn) bool { return !m.broken(c) && c.other.IsClosed() })
	})
}

func (m *memory) broken(c *memoryConn) bool { return m.net.broken(c.host.index, c.other.host.index) }

// endAll ends connections.
func (m *memory) endAll(which func(*memoryConn) bool) {
	m.mu.Lock()
	var dead []*memoryConn
	for c := range m.mu.conns {
		if which(c) {
			dead = append(dead, c)
		}
	}
	m.mu.Unlock()
	for _, c := range dead {
		c.end(network.ErrReset)
	}
}

// CanDial implements transport.Transport.
func (h *memoryHost) CanDial(a multiaddr.Multiaddr) bool {
	_, err := a.ValueForProtocol(multiaddr.P_TCP)
	return err == nil
}

// Protocols implements transport.Transport.
func (h *memoryHost) Protocols() []int { return []int{multiaddr.P_TCP} }

// Proxy implements transport.Transport.
func (h *memoryHost) Proxy() bool { return false }

// Listen implements transport.Transport.
func (h *memoryHost) Listen(multiaddr.Multiaddr) (transport.Listener, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.listener = &memoryListener{host: h, conns: make(chan *memoryConn, 1024), done: make(chan struct{})}
	return h.mu.listener, nil
}

// accept connects another host to this one.
func (h *memoryHost) accept(from *memoryHost) (*memoryConn, error) {
	h.mu.Lock()
	l := h.mu.listener
	h.mu.Unlock()
	if l == nil {
		return nil, errRefused
	}
	theirs, ours, err := connect(from, h)
	if err != nil {
		return nil, err
	}
	select {
	case <-l.done:
		return nil, errRefused
	default:
	}
	select {
	case l.conns <- ours:
	default:
		return nil, errRefused
	}
	h.memory.mu.Lock()
	defer h.memory.mu.Unlock()
	h.memory.mu.conns[theirs], h.memory.mu.conns[ours] = struct{}{}, struct{}{}
	return theirs, nil
}

type memoryListener struct {
	host  *memoryHost
	conns chan *memoryConn
	done  chan struct{}
	once  sync.Once
}

func (l *memoryListener) Accept() (transport.CapableConn, error) {
	select {
	case <-l.done:
		return nil, transport.ErrListenerClosed
	case c := <-l.conns:
		return c, nil
	}
}

func (l *memoryListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *memoryListener) Multiaddr() multiaddr.Multiaddr { return l.host.addr }

func (l *memoryListener) Addr() net.Addr {
	a, err := manet.ToNetAddr(l.host.addr)
	if err != nil {
		return nil // it is an address of TCP
	}
	return a
}

func addrOf(ip net.IP) netip.Addr {
	a, _ := netip.AddrFromSlice(ip)
	return a.Unmap()
}
