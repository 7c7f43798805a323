package p2p

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/multiformats/go-multiaddr"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// maxBulkStrangers bounds the bulk connections accepted from all peers that are not members, in all.
const maxBulkStrangers = 256

// accept takes a TCP connection that begins with TLS. It returns at once. The resource manager has bounded the number of those whose
// peers are not known yet, in all and for each address.
func (b *bulk) accept(raw net.Conn, from multiaddr.Multiaddr, scope network.ConnManagementScope) {
	started := b.n.goDo(func() {
		if err := b.serve(raw, scope); err != nil {
			b.n.log.Debug("a bulk connection ended", "from", from, "err", err)
		}
		_ = raw.Close() // it may be closed already
		scope.Done()
	})
	if !started {
		_ = raw.Close()
		scope.Done()
	}
}

// serve carries the streams of one connection, one after the other, to their handlers.
func (b *bulk) serve(raw net.Conn, scope network.ConnManagementScope) error {
	c, err := b.shake(raw, scope)
	if err != nil {
		return err
	}
	defer c.close()
	if err := b.admit(c); err != nil {
		return err
	}
	if err := c.send(bulkReady, nil, time.Now().Add(bulkHandshake)); err != nil {
		return err
	}
	for {
		proto, err := c.expect(bulkOpen, time.Now().Add(bulkIdleTaken))
		if err != nil {
			return err
		}
		if !b.serveStream(c, protocol.ID(proto)) {
			return nil
		}
	}
}

// shake is the handshake, after which the connection counts as the peer's.
func (b *bulk) shake(raw net.Conn, scope network.ConnManagementScope) (*bulkConn, error) {
	leave, err := b.enter(raw)
	if err != nil {
		return nil, err
	}
	defer leave()
	ctx, cancel := context.WithTimeout(b.n.ctx, bulkHandshake)
	defer cancel()
	c, err := b.handshake(ctx, raw, "", scope)
	if err != nil {
		return nil, err
	}
	return c, scope.SetPeer(c.peer)
}

// admit counts an accepted connection. Members always have a place: there are few of them, and of each the resource manager takes only so many.
func (b *bulk) admit(c *bulkConn) error {
	member := b.n.isProtected(c.peer)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.closed {
		return net.ErrClosed
	}
	if !member && len(b.mu.taken) >= maxBulkStrangers {
		return fmt.Errorf("%d bulk connections: no more from peers that are not members", len(b.mu.taken))
	}
	b.mu.taken[c] = struct{}{}
	return nil
}

// serveStream has a stream handled, and says whether the connection is good for another.
func (b *bulk) serveStream(c *bulkConn, proto protocol.ID) bool {
	handler := b.n.handlerOf(proto)
	key := inboundKey{c.peer, proto}
	if handler == nil || !b.n.admit(key) {
		return false
	}
	ended := make(chan bool, 1)
	s := newBulkStream(c, proto, func(clean bool) { ended <- clean })
	b.carry(handler, slot.PeerID(c.peer), s, key)
	return <-ended
}

func (b *bulk) carry(handler handlerFunc, from slot.PeerID, s *bulkStream, key inboundKey) {
	defer b.n.release(key)
	defer s.Close() //nolint:errcheck // nobody is left to tell
	handler(from, s)
}
