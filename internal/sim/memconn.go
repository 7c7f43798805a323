package sim

import (
	"context"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/transport"
	"github.com/multiformats/go-multiaddr"
)

// memoryConn is one end of a connection.
type memoryConn struct {
	transport.CapableConn // nil: nobody calls what is not below
	node                  *node
	other                 *memoryConn
	life                  context.Context // ends with end
	end                   context.CancelFunc
	opened                chan *memoryStream // at the other end, not accepted yet
	last                  time.Time          // when what was sent last from here comes
}

func newConn(n *node) *memoryConn {
	c := &memoryConn{node: n, opened: make(chan *memoryStream)}
	c.life, c.end = context.WithCancel(context.Background())
	return c
}

// OpenStream implements network.MuxedConn.
func (c *memoryConn) OpenStream(context.Context) (network.MuxedStream, error) {
	s := c.node.net
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.IsClosed() {
		return nil, network.ErrReset
	}
	if c.other.IsClosed() { // which this end learns later
		s.recheck()
	}
	near, far := newStream(c), newStream(c.other)
	near.other, far.other, near.hidden = far, near, true
	return near, nil
}

// AcceptStream implements network.MuxedConn.
func (c *memoryConn) AcceptStream() (network.MuxedStream, error) {
	select {
	case <-c.life.Done():
		return nil, network.ErrReset
	case s := <-c.opened:
		return s, nil
	}
}

// tell lets the other end learn of something if the link holds by then, and find out otherwise. The
// news do not overtake the bytes that come last, and those are read first.
func (c *memoryConn) tell(last time.Time, news func()) {
	s, from, to := c.node.net, c.node, c.other.node
	time.AfterFunc(max(s.delay(from, to), time.Until(last))+time.Nanosecond, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.lost(from, to) {
			s.recheck()
		} else {
			news()
		}
	})
}

// Close implements network.MuxedConn.
func (c *memoryConn) Close() error {
	c.node.net.mu.Lock()
	defer c.node.net.mu.Unlock()
	if !c.IsClosed() {
		c.end()
		c.tell(c.last, c.other.end)
	}
	return nil
}

// CloseWithError implements network.MuxedConn.
func (c *memoryConn) CloseWithError(network.ConnErrorCode) error { return c.Close() }

// IsClosed implements network.MuxedConn.
func (c *memoryConn) IsClosed() bool { return c.life.Err() != nil }

// LocalPeer implements network.ConnSecurity.
func (c *memoryConn) LocalPeer() peer.ID { return c.node.id }

// RemotePeer implements network.ConnSecurity.
func (c *memoryConn) RemotePeer() peer.ID { return c.other.node.id }

// RemotePublicKey implements network.ConnSecurity.
func (c *memoryConn) RemotePublicKey() crypto.PubKey {
	key, _ := c.RemotePeer().ExtractPublicKey() // it is the ID
	return key
}

// ConnState implements network.ConnSecurity.
func (c *memoryConn) ConnState() network.ConnectionState {
	return network.ConnectionState{Transport: "tcp", StreamMultiplexer: "/memory", Security: "/memory"}
}

// LocalMultiaddr implements network.ConnMultiaddrs.
func (c *memoryConn) LocalMultiaddr() multiaddr.Multiaddr { return c.node.addr }

// RemoteMultiaddr implements network.ConnMultiaddrs.
func (c *memoryConn) RemoteMultiaddr() multiaddr.Multiaddr { return c.other.node.addr }

// Scope implements network.ConnScoper.
func (c *memoryConn) Scope() network.ConnScope { return &network.NullScope{} }

// Transport implements transport.CapableConn.
func (c *memoryConn) Transport() transport.Transport { return c.node }
