package bulk

import (
	"context"
	"crypto/rand"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/metrics"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	libp2ptls "github.com/libp2p/go-libp2p/p2p/security/tls"
	"github.com/multiformats/go-multiaddr"
	"go.uber.org/goleak"

	"github.com/p2pdiloco/p2pdiloco/internal/sim"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/limits"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/peers"
)

func init() { testutil.OneCPU() }

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Protocols that have bulk connections, and some that have none.
const (
	exchange  = "/p2pdiloco/exchange/1.0.0"
	state     = "/p2pdiloco/state/1.0.0"
	hello     = "/p2pdiloco/hello/1.0.0"
	ledger    = "/p2pdiloco/ledger/3.0.0-dev"
	pulse     = "/p2pdiloco/pulse/1.0.0"
	protoEcho = "/p2pdiloco/echo/1.0.0"
)

func bulky(proto string) bool { return proto == exchange || proto == state }

var somewhere = multiaddr.StringCast("/ip4/192.0.2.1/tcp/4001")

// counted counts the bytes of streams.
type counted struct {
	metrics.Reporter
	sent, received atomic.Int64
}

func (c *counted) LogSentMessageStream(n int64, _ protocol.ID, _ peer.ID) { c.sent.Add(n) }
func (c *counted) LogRecvMessageStream(n int64, _ protocol.ID, _ peer.ID) { c.received.Add(n) }

// node is a host's bulk connections, with the parts that a Network would give them.
type node struct {
	*Conns
	host   host.Host
	count  *counted
	Close  func() error
	served struct {
		sync.Mutex
		handlers map[string]func(slot.PeerID, wire.Stream)
	}
}

func newNode(t testing.TB, h host.Host, inlet Inlet) *node {
	t.Helper()
	group := peers.NewGroup(context.Background())
	n := &node{host: h, count: &counted{}}
	n.served.handlers = make(map[string]func(slot.PeerID, wire.Stream))
	var err error
	n.Conns, err = New(Env{
		Env:    peers.NewEnv(h, group, nil, peers.DialConfig{}, slog.New(slog.DiscardHandler)),
		Key:    h.Peerstore().PrivKey(h.ID()),
		Upload: limits.NewBucket(0), Download: limits.NewBucket(0), Count: n.count,
		Saw: func(peer.ID) {}, Admit: n.admits,
	}, inlet)
	if err != nil {
		t.Fatal(err)
	}
	n.Close = sync.OnceValue(func() error {
		group.Stop()
		group.Wait()
		return nil
	})
	t.Cleanup(func() { _ = n.Close() })
	return n
}

func (n *node) admits(from peer.ID, proto protocol.ID) func(wire.Stream) {
	n.served.Lock()
	defer n.served.Unlock()
	f := n.served.handlers[string(proto)]
	if f == nil || !bulky(string(proto)) {
		return nil
	}
	return func(s wire.Stream) {
		defer s.Close() //nolint:errcheck // nobody is left to tell
		f(slot.PeerID(from), s)
	}
}

// Handle serves a protocol on bulk connections and on libp2p's.
func (n *node) Handle(proto string, f func(slot.PeerID, wire.Stream)) {
	n.served.Lock()
	n.served.handlers[proto] = f
	n.served.Unlock()
	n.host.SetStreamHandler(protocol.ID(proto), func(s network.Stream) {
		defer s.Close() //nolint:errcheck // nobody is left to tell
		f(slot.PeerID(s.Conn().RemotePeer()), s)
	})
}

// OpenBulk opens a stream on a bulk connection, or else on one of libp2p's.
func (n *node) OpenBulk(ctx context.Context, to peer.ID, proto string) (wire.Stream, error) {
	if err := n.env.Dialer.Dial(ctx, peer.AddrInfo{ID: to}); err != nil {
		return nil, n.env.Tasks.Err(err)
	}
	if bulky(proto) {
		if s, err := n.Open(ctx, to, protocol.ID(proto)); err == nil {
			return s, nil
		}
	}
	s, err := n.host.NewStream(ctx, to, protocol.ID(proto))
	if err != nil {
		return nil, n.env.Tasks.Err(err)
	}
	return s, nil
}

// simulated makes a node on simulated host i. Nothing comes to it by itself.
func simulated(t *testing.T, s *sim.Net, i int) *node {
	return newNode(t, s.Hosts[i], make(Inlet))
}

// loopback makes a node that listens on TCP.
func loopback(t testing.TB) *node {
	t.Helper()
	key, _, err := crypto.GenerateEd25519Key(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	limiter, err := limits.NewResourceManager(MaxConns)
	if err != nil {
		t.Fatal(err)
	}
	inlet := make(Inlet)
	ports := NewPorts(func(multiaddr.Multiaddr) bool { return false })
	h, err := libp2p.New(libp2p.Identity(key), libp2p.Transport(NewTransport(ports, inlet)), libp2p.NoListenAddrs,
		libp2p.Security(libp2ptls.ID, NewLargeTLS), libp2p.ResourceManager(limiter), libp2p.DisableMetrics())
	if err != nil {
		t.Fatal(err)
	}
	n := newNode(t, h, inlet)
	parts := n.Close
	n.Close = sync.OnceValue(func() error { _ = parts(); return h.Close() })
	t.Cleanup(func() { _ = n.Close() })
	noError(t, h.Network().Listen(multiaddr.StringCast("/ip4/127.0.0.1/tcp/0")))
	return n
}

// tcpPair is two nodes that know of each other.
func tcpPair(t testing.TB) (a, b *node) {
	t.Helper()
	a, b = loopback(t), loopback(t)
	a.host.Peerstore().AddAddrs(b.id(), b.host.Addrs(), time.Hour)
	b.host.Peerstore().AddAddrs(a.id(), a.host.Addrs(), time.Hour)
	return a, b
}

func (n *node) id() peer.ID { return n.host.ID() }

func bounded(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func openBulk(t testing.TB, a, b *node, proto string) wire.Stream {
	t.Helper()
	s, err := a.OpenBulk(bounded(t), b.id(), proto)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func echo(_ slot.PeerID, s wire.Stream) { _, _ = io.Copy(s, s) }

// countedScope counts how often it is given back.
type countedScope struct {
	network.NullScope
	done *atomic.Int32
}

func (s *countedScope) Done() { s.done.Add(1) }

func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
