package p2p

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/proto"
	"github.com/multiformats/go-multiaddr"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/bulk"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/limits"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/peers"
)

type handlerFunc = func(from slot.PeerID, s wire.Stream)

type inboundKey struct {
	from  peer.ID
	proto protocol.ID
}

// streams are the handlers of streams that come in, and how many are being handled.
type streams struct {
	mu struct {
		sync.Mutex
		inbound  map[inboundKey]int // streams being handled
		handlers map[protocol.ID]handlerFunc
	}
}

func newStreams() *streams {
	s := &streams{}
	s.mu.inbound = make(map[inboundKey]int)
	s.mu.handlers = make(map[protocol.ID]handlerFunc)
	return s
}

// setHandler sets the handler of a protocol; nil: there is none any more.
func (s *streams) setHandler(id protocol.ID, f handlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.handlers[id] = f; f == nil {
		delete(s.mu.handlers, id)
	}
}

// handled are the protocols that have a handler.
func (s *streams) handled() map[protocol.ID]handlerFunc {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.mu.handlers)
}

// enter counts one more stream that is handled, of which a peer may have so many, and returns its
// handler: nil if it is one too many, or the handler has gone.
func (s *streams) enter(key inboundKey, most int) handlerFunc {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.mu.handlers[key.proto]
	if f == nil || s.mu.inbound[key] >= most {
		return nil
	}
	s.mu.inbound[key]++
	return f
}

func (s *streams) leave(key inboundKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.inbound[key]--; s.mu.inbound[key] == 0 {
		delete(s.mu.inbound, key)
	}
}

// stream is a libp2p stream that the Network knows of until it is closed or reset.
type stream struct {
	network.Stream
	n     *Network
	gate  *limits.WriteTurns
	inlet *limits.ReadTurns
	stop  func() bool // ends the watch for the Network's end, which resets the stream
}

func (s *stream) Close() error { s.stop(); s.inlet.End(); return s.Stream.Close() }
func (s *stream) Reset() error { s.stop(); s.gate.End(); s.inlet.End(); return s.Stream.Reset() }

func (s *stream) SetDeadline(t time.Time) error {
	return errors.Join(s.SetReadDeadline(t), s.SetWriteDeadline(t))
}

func (s *stream) SetReadDeadline(t time.Time) error {
	s.inlet.Until(t)
	return s.Stream.SetReadDeadline(t)
}

func (s *stream) SetWriteDeadline(t time.Time) error {
	s.gate.Until(t)
	return s.Stream.SetWriteDeadline(t)
}

func (s *stream) Read(b []byte) (int, error) {
	k, err := s.inlet.Take(len(b))
	if err != nil {
		return 0, err
	}
	k, err = s.Stream.Read(b[:k])
	s.inlet.Came(k)
	if !s.n.ownHost {
		s.n.count.LogRecvMessageStream(int64(max(k, 0)), s.Protocol(), "")
		if relay, relayed := peers.Relay(s.Conn().RemoteMultiaddr()); relayed {
			s.n.count.LogRecvMessageStream(int64(max(k, 0)), proto.ProtoIDv2Stop, relay)
		}
	}
	if k > 0 {
		s.n.signs.Saw(s.Conn().RemotePeer(), false)
	}
	return k, s.failed(err)
}

func (s *stream) Write(b []byte) (n int, err error) {
	// nothing is written too: it may begin the stream
	for first := true; err == nil && (first || n < len(b)); first = false {
		var k int
		if k, err = s.gate.Take(len(b) - n); err == nil {
			k, err = s.Stream.Write(b[n : n+k])
			n += k
		}
	}
	if !s.n.ownHost {
		s.n.count.LogSentMessageStream(int64(n), s.Protocol(), "")
		if peers.IsRelayed(s.Conn().RemoteMultiaddr()) {
			s.n.count.sent[circuit].Add(uint64(max(n, 0)))
		}
	}
	return n, s.failed(err)
}

// failed ends a connection through a relay on which much data came to a halt, and forgets that way
// if there is one through another relay: a relay may carry handshakes and pulses, and hold back all
// that is larger. Where the other end was slow instead, that costs a dial.
func (s *stream) failed(err error) error {
	relay, relayed := peers.Relay(s.Conn().RemoteMultiaddr())
	if err == nil || errors.Is(err, io.EOF) || !relayed || !protocols[s.Protocol()].bulky {
		return err
	}
	id, book := s.Conn().RemotePeer(), s.n.env.Host.Peerstore()
	var through, others []multiaddr.Multiaddr
	for _, a := range book.Addrs(id) {
		if by, is := peers.Relay(a); is && by == relay {
			through = append(through, a)
		} else if is {
			others = append(others, a)
		}
	}
	if len(others) > 0 {
		s.n.env.Log.Debug("a relay carries too little: another one is used", "peer", id, "relay", relay, "err", err)
		book.SetAddrs(id, through, 0)
		s.n.env.Tasks.Go(func() { _ = s.Conn().Close() })
	}
	return err
}

// track takes s under the Network's care. When the Network is closed it resets s.
func (n *Network) track(s network.Stream) *stream {
	var up, down *limits.Bucket // nil: no bound
	if protocols[s.Protocol()].bulky {
		up, down = n.count.upload, n.count.download
	}
	t := &stream{Stream: s, n: n, gate: limits.NewWriteTurns(up), inlet: limits.NewReadTurns(down)}
	t.stop = context.AfterFunc(n.env.Tasks.Context(), func() {
		t.gate.End()
		t.inlet.End()
		_ = s.Reset()
	})
	return t
}

// Open opens a stream of one protocol to a peer, connecting to it and looking up its addresses
// first where that is needed. The caller closes or resets it. An unknown protocol may show only at
// the first Read.
func (n *Network) Open(ctx context.Context, to slot.PeerID, proto string) (wire.Stream, error) {
	ctx, cancel := n.env.Tasks.Join(ctx)
	defer cancel()
	s, err := n.openStream(ctx, peer.ID(to), protocol.ID(proto))
	if err != nil {
		return nil, n.env.Tasks.Err(fmt.Errorf("stream %s to %s: %w", proto, to.Short(), err))
	}
	return n.track(s), nil
}

// OpenBulk is Open for the protocols of much data (those that are bulky in protocols.go): it takes
// the fastest authenticated way to the peer that there is. The stream reaches the same handler.
// Reset after Close does nothing there.
func (n *Network) OpenBulk(ctx context.Context, to slot.PeerID, proto string) (wire.Stream, error) {
	if n.bulk != nil && protocols[protocol.ID(proto)].bulky {
		ctx, cancel := n.env.Tasks.Join(ctx)
		defer cancel()
		if err := n.reach(ctx, peer.ID(to), protocol.ID(proto)); err != nil {
			return nil, n.env.Tasks.Err(fmt.Errorf("stream %s to %s: %w", proto, to.Short(), err))
		}
		if s, err := n.bulk.Open(ctx, peer.ID(to), protocol.ID(proto)); err == nil {
			if err := n.gate().StillPasses(s, peer.ID(to), protocol.ID(proto)); err != nil {
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
	if protocols[proto].purpose == control {
		ctx = network.WithAllowLimitedConn(ctx, "small things")
	}
	s, err := n.env.Host.NewStream(ctx, to, proto)
	if err != nil {
		return nil, err
	}
	if err := n.gate().StillPasses(s, to, proto); err != nil {
		return nil, err
	}
	return s, nil
}

// reach connects to a peer, and goes through the gate. For a member that could not be dialled
// lately it fails at once: there are other ways to it than to wait.
func (n *Network) reach(ctx context.Context, to peer.ID, proto protocol.ID) error {
	if n.env.Dialer.Apart(to) {
		n.env.Dialer.Again(to)
		return peers.ErrApart
	}
	if err := n.env.Dialer.Connect(ctx, peer.AddrInfo{ID: to}); err != nil {
		return err
	}
	return n.gate().Pass(ctx, to, proto)
}

// InReach says whether there is a connection to a peer now.
func (n *Network) InReach(to slot.PeerID) bool { return n.env.Connected(peer.ID(to)) }

// Handle serves a protocol: f runs in its own goroutine for each stream that a peer opens, which it
// owns until it returns; then the stream is closed. At most 64 streams of one peer are handled at
// once, fewer of hello and ledger; further ones are reset. Handling a protocol again replaces f for
// new streams.
func (n *Network) Handle(proto string, f func(from slot.PeerID, s wire.Stream)) {
	id := protocol.ID(proto)
	if n.env.Tasks.Err(nil) != nil {
		return
	}
	n.streams.setHandler(id, f)
	n.env.Host.SetStreamHandler(id, func(s network.Stream) {
		if serve := n.admit(s.Conn().RemotePeer(), id); serve != nil {
			serve(n.track(s))
		} else {
			_ = s.Reset()
		}
	})
}

// unhandle ends Handle for streams to come.
func (n *Network) unhandle(id protocol.ID) {
	n.streams.setHandler(id, nil)
	n.env.Host.RemoveStreamHandler(id)
}

// admit counts one more stream that is handled, which Close waits for, if the gate lets the peer
// in. It returns what serves and closes the stream; nil refuses it.
func (n *Network) admit(from peer.ID, proto protocol.ID) func(wire.Stream) {
	if !n.gate().Admits(from, proto) || !n.env.Tasks.Enter() {
		return nil
	}
	key := inboundKey{from, proto}
	f := n.streams.enter(key, cmp.Or(protocols[proto].atOnce, streamsAtOnce))
	if f == nil {
		n.env.Tasks.Leave()
		return nil
	}
	return func(s wire.Stream) {
		defer n.env.Tasks.Leave()
		defer n.streams.leave(key)
		defer s.Close() //nolint:errcheck // nobody is left to tell
		f(slot.PeerID(from), s)
	}
}

// newBulk makes the bulk connections of the Network's own host.
func (n *Network) newBulk(inlet bulk.Inlet) (*bulk.Conns, error) {
	return bulk.New(bulk.Env{
		Env: n.env, Key: n.key, Upload: n.count.upload, Download: n.count.download, Count: &n.count,
		Saw: func(from peer.ID) { n.signs.Saw(from, true) },
		Admit: func(from peer.ID, proto protocol.ID) func(wire.Stream) {
			if !protocols[proto].bulky {
				return nil
			}
			return n.admit(from, proto)
		},
	}, inlet)
}
