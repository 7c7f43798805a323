package sim

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

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

// lostRetry is the time until bytes that were lost on a cut link are sent again.
const lostRetry = 250 * time.Millisecond

var errRefused = errors.New("connection refused")

// Dial implements transport.Transport.
func (n *node) Dial(ctx context.Context, to multiaddr.Multiaddr, id peer.ID) (transport.CapableConn, error) {
	ip, err := manet.ToIP(to)
	if err != nil {
		return nil, err
	}
	look := func() (other *node, handshakes time.Duration, broken bool) {
		n.net.mu.Lock()
		defer n.net.mu.Unlock()
		if other = n.net.find(ip); other != nil {
			handshakes, broken = handshake*2*n.net.delay(n, other), n.net.broken(n, other)
		}
		return other, handshakes, broken
	}
	other, wait, _ := look()
	if other == nil {
		return nil, errRefused
	}
	for broken := true; broken; wait = lostRetry { // the first packet is sent again
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(wait):
		}
		_, _, broken = look()
	}
	if other.id != id {
		return nil, fmt.Errorf("peer %s listens there, not %s", other.id, id)
	}
	near, far := newConn(n), newConn(other)
	near.other, far.other = far, near
	select {
	case <-other.listening.Done():
		return nil, errRefused
	case other.conns <- far:
	}
	n.net.mu.Lock()
	defer n.net.mu.Unlock()
	n.net.mu.conns = append(n.net.mu.conns, near, far)
	return near, nil
}

// CanDial implements transport.Transport.
func (n *node) CanDial(a multiaddr.Multiaddr) bool {
	_, err := a.ValueForProtocol(multiaddr.P_TCP)
	return err == nil
}

// Protocols implements transport.Transport.
func (n *node) Protocols() []int { return []int{multiaddr.P_TCP} }

// Proxy implements transport.Transport.
func (n *node) Proxy() bool { return false }

// Listen implements transport.Transport.
func (n *node) Listen(a multiaddr.Multiaddr) (transport.Listener, error) {
	n.addr = a
	return n, nil
}

// Accept implements transport.Listener.
func (n *node) Accept() (transport.CapableConn, error) {
	select {
	case <-n.listening.Done():
		return nil, transport.ErrListenerClosed
	case c := <-n.conns:
		return c, nil
	}
}

// Close implements transport.Listener.
func (n *node) Close() error {
	n.stop()
	return nil
}

// Multiaddr implements transport.Listener.
func (n *node) Multiaddr() multiaddr.Multiaddr { return n.addr }

// Addr implements transport.Listener. Nobody asks for it.
func (n *node) Addr() net.Addr { return nil }

// recheck waits for the time that it takes to notice a fault. Then it ends the connections with a
// cut link, or with an other end that is gone. An end over a whole link learns that the other one
// is gone as soon as it sends again.
func (s *Net) recheck() {
	time.AfterFunc(resetAfter, func() { s.endDead(false) })
	time.AfterFunc(idleTimeout, func() { s.endDead(true) })
}

func (s *Net) endDead(idle bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.conns = slices.DeleteFunc(s.mu.conns, func(c *memoryConn) bool {
		if broken := s.broken(c.node, c.other.node); broken && idle || !broken && c.other.IsClosed() {
			c.end()
		}
		return c.IsClosed()
	})
}
