package p2p

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/proto"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// connectTimeout bounds connecting to one peer.
const connectTimeout = 15 * time.Second

type inboundKey struct {
	from  peer.ID
	proto protocol.ID
}

// stream is a libp2p stream that the Network knows of until it is closed or reset.
type stream struct {
	network.Stream
	n     *Network
	gate  uploadGate
	inlet downloadGate
	once  sync.Once
}

var _ wire.Stream = (*stream)(nil)

func (s *stream) Close() error { s.forget(); s.inlet.shut(); return s.Stream.Close() }
func (s *stream) Reset() error { s.forget(); s.gate.shut(); s.inlet.shut(); return s.Stream.Reset() }

func (s *stream) SetDeadline(t time.Time) error {
	s.gate.until(t)
	s.inlet.until(t)
	return s.Stream.SetDeadline(t)
}

func (s *stream) SetReadDeadline(t time.Time) error {
	s.inlet.until(t)
	return s.Stream.SetReadDeadline(t)
}

func (s *stream) SetWriteDeadline(t time.Time) error {
	s.gate.until(t)
	return s.Stream.SetWriteDeadline(t)
}

func (s *stream) Read(b []byte) (int, error) {
	k, err := s.inlet.take(len(b))
	if err != nil {
		return 0, err
	}
	k, err = s.Stream.Read(b[:k])
	s.inlet.came(k)
	if !s.n.ownHost {
		s.n.count.LogRecvMessageStream(int64(max(k, 0)), s.Protocol(), "")
		if relay, relayed := relayOf(s.Conn().RemoteMultiaddr()); relayed {
			s.n.count.LogRecvMessageStream(int64(max(k, 0)), proto.ProtoIDv2Stop, relay)
		}
	}
	if k > 0 {
		s.n.pulses.saw(s.Conn().RemotePeer(), false)
	}
	return k, err
}

func (s *stream) Write(b []byte) (n int, err error) {
	for first := true; err == nil && (first || n < len(b)); first = false { // nothing is written too: it may begin the stream
		var k int
		if k, err = s.gate.take(len(b) - n); err == nil {
			k, err = s.Stream.Write(b[n : n+k])
			n += k
		}
	}
	if !s.n.ownHost {
		s.n.count.LogSentMessageStream(int64(n), s.Protocol(), "")
		if isRelayed(s.Conn().RemoteMultiaddr()) {
			s.n.count.sent[circuit].Add(uint64(max(n, 0)))
		}
	}
	return n, err
}

func (s *stream) forget() {
	s.once.Do(func() {
		s.n.mu.Lock()
		defer s.n.mu.Unlock()
		delete(s.n.mu.streams, s)
	})
}

// track takes s under the Network's care. When the Network is closed it resets s and returns nil.
func (n *Network) track(s network.Stream) *stream {
	t := &stream{Stream: s, n: n}
	t.gate.open(&n.upload, s.Protocol())
	t.inlet.open(&n.download, s.Protocol())
	n.mu.Lock()
	closed := n.mu.closed
	if !closed {
		n.mu.streams[t] = struct{}{}
	}
	n.mu.Unlock()
	if closed {
		_ = s.Reset()
		return nil
	}
	return t
}

// Open opens a stream of one protocol to a peer, connecting to it and looking up its addresses first where that is needed.
// The caller closes or resets it. An unknown protocol may show only at the first Read.
func (n *Network) Open(ctx context.Context, to slot.PeerID, proto string) (wire.Stream, error) {
	ctx, cancel := n.joined(ctx)
	defer cancel()
	s, err := n.openStream(ctx, peer.ID(to), protocol.ID(proto))
	if err != nil {
		return nil, n.closedError(fmt.Errorf("stream %s to %s: %w", proto, to.Short(), err))
	}
	if t := n.track(s); t != nil {
		return t, nil
	}
	return nil, n.closedError(nil)
}

// OpenBulk is Open for the protocols of much data (exchange, state, probe): it takes the fastest authenticated way to the peer that there is. The stream
// reaches the same handler. Reset after Close does nothing there.
func (n *Network) OpenBulk(ctx context.Context, to slot.PeerID, proto string) (wire.Stream, error) {
	if n.bulk != nil && bulky(protocol.ID(proto)) {
		ctx, cancel := n.joined(ctx)
		defer cancel()
		if err := n.reach(ctx, peer.ID(to), protocol.ID(proto)); err != nil {
			return nil, n.closedError(fmt.Errorf("stream %s to %s: %w", proto, to.Short(), err))
		}
		if s, err := n.bulk.open(ctx, peer.ID(to), protocol.ID(proto)); err == nil {
			if err := n.stillPasses(s, peer.ID(to), protocol.ID(proto)); err != nil {
				return nil, err
			}
			return s, nil
		}
	}
	return n.Open(ctx, to, proto)
}

func (n *Network) openStream(ctx context.Context, to peer.ID, proto protocol.ID) (network.Stream, error) {
	if err := n.reach(ctx, to, proto); err != nil {
		return nil, err
	}
	if purposeOf(proto) == control {
		ctx = network.WithAllowLimitedConn(ctx, "small things")
	}
	s, err := n.host.NewStream(ctx, to, proto)
	if err != nil {
		return nil, err
	}
	if err := n.stillPasses(s, to, proto); err != nil {
		return nil, err
	}
	return s, nil
}

// reach connects to a peer, and goes through the gate.
func (n *Network) reach(ctx context.Context, to peer.ID, proto protocol.ID) error {
	if err := n.connect(ctx, peer.AddrInfo{ID: to}); err != nil {
		return err
	}
	return n.pass(ctx, to, proto)
}

// connect has a connection to the peer when it returns nil. Where the addresses known fail, it asks the DHT for others.
func (n *Network) connect(ctx context.Context, to peer.AddrInfo) error {
	if to.ID == n.host.ID() {
		return errors.New("that is this peer itself")
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	err := n.dial(ctx, to)
	if err == nil || ctx.Err() != nil {
		return err
	}
	// The lookup calls a peer not found that it could not dial with the old addresses, but has learned the new ones by then.
	if _, err := n.dht.FindPeer(ctx, to.ID); err != nil {
		n.log.Debug("looking up a peer's addresses", "peer", to.ID, "err", err)
	}
	if len(n.host.Peerstore().Addrs(to.ID)) == 0 {
		return err
	}
	return n.dial(ctx, peer.AddrInfo{ID: to.ID})
}

// Handle serves a protocol: f runs in its own goroutine for each stream that a peer opens, which it owns until it returns; then
// the stream is closed. At most Config.MaxStreamsPerPeer streams of one peer are handled at once, fewer of hello and ledger; further
// ones are reset.
// Handling a protocol again replaces f for new streams.
func (n *Network) Handle(proto string, f func(from slot.PeerID, s wire.Stream)) {
	id := protocol.ID(proto)
	n.mu.Lock()
	closed := n.mu.closed
	n.mu.handlers[id] = f
	n.mu.Unlock()
	if !closed {
		n.host.SetStreamHandler(id, func(s network.Stream) { n.handle(s, id, f) })
	}
}

// unhandle ends Handle for streams to come.
func (n *Network) unhandle(id protocol.ID) {
	n.mu.Lock()
	delete(n.mu.handlers, id)
	n.mu.Unlock()
	n.host.RemoveStreamHandler(id)
}

// handled are the protocols that Handle was called for.
func (n *Network) handled() map[protocol.ID]bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := make(map[protocol.ID]bool, len(n.mu.handlers))
	for id := range n.mu.handlers {
		all[id] = true
	}
	return all
}

type handlerFunc = func(from slot.PeerID, s wire.Stream)

// handlerOf is what Handle was given for a protocol; nil if nothing.
func (n *Network) handlerOf(id protocol.ID) handlerFunc {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.mu.handlers[id]
}

func (n *Network) handle(s network.Stream, id protocol.ID, f func(slot.PeerID, wire.Stream)) {
	key := inboundKey{s.Conn().RemotePeer(), id}
	if !n.admit(key) {
		_ = s.Reset()
		return
	}
	defer n.release(key)
	if t := n.track(s); t != nil {
		defer t.Close() //nolint:errcheck // nobody is left to tell
		f(slot.PeerID(key.from), t)
	}
}

// admit counts one more handler, which Close waits for, if the gate lets the peer in.
func (n *Network) admit(key inboundKey) bool {
	if !n.admits(key) {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.mu.handlers[key.proto] == nil { // since this stream was opened
		return false
	}
	if n.mu.closed || n.mu.inbound[key] >= min(n.cfg.MaxStreamsPerPeer, streamsAtOnce(key.proto)) {
		return false
	}
	n.mu.inbound[key]++
	n.wg.Add(1)
	return true
}

// streamsAtOnce bounds the streams of protocols of which an honest peer has one, or for a moment two.
func streamsAtOnce(proto protocol.ID) int {
	switch proto {
	case ProtocolHello, ProtocolLedger, ProtocolPulse, ProtocolAdmit, ProtocolKey:
		return 4
	case ProtocolProbe:
		return 2
	default:
		return math.MaxInt
	}
}

func (n *Network) release(key inboundKey) {
	defer n.wg.Done()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.mu.inbound[key]--; n.mu.inbound[key] == 0 {
		delete(n.mu.inbound, key)
	}
}
