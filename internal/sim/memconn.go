package sim

import (
	"context"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/transport"
	"github.com/multiformats/go-multiaddr"
)

// memoryConn is one end of a connection.
type memoryConn struct {
	host  *memoryHost
	other *memoryConn
	key   crypto.PubKey // of the other end
	done  chan struct{} // closed with it
	wake  chan struct{} // a stream was opened at the other end
	mu    struct {
		sync.Mutex
		err     error     // since it is closed
		last    time.Time // when what was sent last from here comes
		streams map[*memoryStream]struct{}
		opened  []*memoryStream // not accepted yet
	}
}

var _ transport.CapableConn = (*memoryConn)(nil)

// connect makes both ends of a connection.
func connect(a, b *memoryHost) (x, y *memoryConn, err error) {
	if x, err = a.end(b); err != nil {
		return nil, nil, err
	}
	if y, err = b.end(a); err != nil {
		return nil, nil, err
	}
	x.other, y.other = y, x
	return x, y, nil
}

func (h *memoryHost) end(other *memoryHost) (*memoryConn, error) {
	key, err := other.id.ExtractPublicKey()
	c := &memoryConn{host: h, key: key, done: make(chan struct{}), wake: make(chan struct{}, 1)}
	c.mu.streams = make(map[*memoryStream]struct{})
	return c, err
}

// OpenStream implements network.MuxedConn.
func (c *memoryConn) OpenStream(context.Context) (network.MuxedStream, error) {
	out, in := &pipe{from: c.host, to: c.other.host}, &pipe{from: c.other.host, to: c.host}
	out.wake, in.wake = make(chan struct{}, 1), make(chan struct{}, 1)
	out.room, in.room = make(chan struct{}, 1), make(chan struct{}, 1)
	near, far := &memoryStream{conn: c, in: in, out: out, opener: true}, &memoryStream{conn: c.other, in: out, out: in}
	near.other, far.other = far, near
	if err := c.add(near, false); err != nil {
		return nil, err
	}
	// the other host is gone, which this end learns later
	if err := c.other.add(far, true); err != nil {
		far.end()
		c.host.memory.recheck()
	}
	return near, nil
}

// add adds a stream. A stream that was opened at the other end waits to be accepted.
func (c *memoryConn) add(s *memoryStream, opened bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.err != nil {
		return c.mu.err
	}
	c.mu.streams[s] = struct{}{}
	if opened {
		c.mu.opened = append(c.mu.opened, s)
		signal(c.wake)
	}
	return nil
}

// AcceptStream implements network.MuxedConn. As in QUIC, a stream is there with its first bytes.
func (c *memoryConn) AcceptStream() (network.MuxedStream, error) {
	for {
		s, next, err := c.accepted()
		if s != nil || err != nil {
			return s, err
		}
		pause(c.wake, c.done, next)
	}
}

// accepted returns a stream with bytes that have arrived, or the time at which to look again.
func (c *memoryConn) accepted() (_ network.MuxedStream, next time.Time, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.err != nil {
		return nil, time.Time{}, c.mu.err
	}
	for i, s := range c.mu.opened {
		at, ok := s.in.first()
		if ok && !at.After(time.Now()) {
			c.mu.opened = append(c.mu.opened[:i], c.mu.opened[i+1:]...)
			s.taken.Store(true)
			return s, time.Time{}, nil
		}
		if ok && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return nil, next, nil
}

// forget drops a stream that is closed at both ends of both directions.
func (c *memoryConn) forget(s *memoryStream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.mu.streams, s)
	for i, o := range c.mu.opened {
		if o == s {
			c.mu.opened = append(c.mu.opened[:i], c.mu.opened[i+1:]...)
			break
		}
	}
}

// end ends this end of the connection, and all its streams.
func (c *memoryConn) end(err error) bool {
	c.mu.Lock()
	if c.mu.err != nil {
		c.mu.Unlock()
		return false
	}
	c.mu.err = err
	close(c.done)
	streams := c.mu.streams
	c.mu.streams, c.mu.opened = nil, nil
	c.mu.Unlock()
	for s := range streams {
		s.end()
	}
	m := c.host.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.mu.conns, c)
	return true
}

// noteSent notes when what was sent over a stream comes.
func (c *memoryConn) noteSent(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.last = later(c.mu.last, at)
}

// behind returns in how much time the other end learns of an end of this connection or of one of
// its streams: that does not overtake bytes that were sent before, and they are read first.
func (c *memoryConn) behind(last time.Time) time.Duration {
	return max(c.host.memory.delay(c.host.index, c.other.host.index), time.Until(last)) + time.Nanosecond
}

// Close implements network.MuxedConn. The other end learns of it if the link holds, after what was
// sent before has come; else it finds out.
func (c *memoryConn) Close() error {
	if !c.end(network.ErrReset) {
		return nil
	}
	m, from, to := c.host.memory, c.host.index, c.other.host.index
	c.mu.Lock()
	last := c.mu.last
	c.mu.Unlock()
	time.AfterFunc(c.behind(last), func() {
		if m.net.lost(from, to) {
			m.recheck()
			return
		}
		c.other.end(network.ErrReset)
	})
	return nil
}

// CloseWithError implements network.MuxedConn.
func (c *memoryConn) CloseWithError(network.ConnErrorCode) error { return c.Close() }

// IsClosed implements network.MuxedConn.
func (c *memoryConn) IsClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.err != nil
}

// As implements network.MuxedConn.
func (c *memoryConn) As(any) bool { return false }

// LocalPeer implements network.ConnSecurity.
func (c *memoryConn) LocalPeer() peer.ID { return c.host.id }

// RemotePeer implements network.ConnSecurity.
func (c *memoryConn) RemotePeer() peer.ID { return c.other.host.id }

// RemotePublicKey implements network.ConnSecurity.
func (c *memoryConn) RemotePublicKey() crypto.PubKey { return c.key }

// ConnState implements network.ConnSecurity.
func (c *memoryConn) ConnState() network.ConnectionState {
	return network.ConnectionState{Transport: "tcp", StreamMultiplexer: "/memory", Security: "/memory"}
}

// LocalMultiaddr implements network.ConnMultiaddrs.
func (c *memoryConn) LocalMultiaddr() multiaddr.Multiaddr { return c.host.addr }

// RemoteMultiaddr implements network.ConnMultiaddrs.
func (c *memoryConn) RemoteMultiaddr() multiaddr.Multiaddr { return c.other.host.addr }

// Scope implements network.ConnScoper.
func (c *memoryConn) Scope() network.ConnScope { return &network.NullScope{} }

// Transport implements transport.CapableConn.
func (c *memoryConn) Transport() transport.Transport { return c.host }
