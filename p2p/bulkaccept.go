package p2p

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/multiformats/go-multiaddr"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

const (
	maxBulkStrangers = 256      // bulk connections accepted from peers that are not members
	maxBulkShaking   = 512      // connections accepted that shake hands
	maxHandshake     = 32 << 10 // bytes from the other side; with large keys it has 8 KiB to say
	// bulkAlone is how long a connection waits for libp2p's with that peer, which may be known here a moment later than there.
	bulkAlone = 5 * time.Second
)

// accept takes a TCP connection that begins with TLS. It returns at once. The resource manager has bounded the number of those whose
// peers are not known yet, in all and for each address.
func (b *bulk) accept(raw net.Conn, from multiaddr.Multiaddr, scope network.ConnManagementScope) {
	started := b.n.goDo(func() {
		if err := b.serve(raw, from, scope); err != nil {
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
func (b *bulk) serve(raw net.Conn, from multiaddr.Multiaddr, scope network.ConnManagementScope) error {
	c, err := b.shake(raw, from, scope)
	if err != nil {
		return err
	}
	defer c.close()
	if err := b.admit(c, siteOf(from)); err != nil {
		return err
	}
	if err := b.accompanied(c.peer); err != nil {
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
		b.busy(c, true)
		if !b.serveStream(c, protocol.ID(proto)) {
			return nil
		}
		b.busy(c, false)
		c.records.shrink()
	}
}

// accompanied waits until libp2p has a connection to a peer: by that its life is judged, and with that the others end.
func (b *bulk) accompanied(id peer.ID) error {
	ctx, cancel := context.WithTimeout(b.n.ctx, bulkAlone)
	defer cancel()
	ctx, over := b.n.arrivals.dialling(ctx, id)
	defer over()
	connected := func() bool { return b.n.host.Network().Connectedness(id) == network.Connected }
	if connected() {
		return nil
	}
	if <-ctx.Done(); connected() {
		return nil
	}
	return fmt.Errorf("a bulk connection of %s, to which libp2p has none", slot.PeerID(id).Short())
}

// shake is the handshake, after which the connection counts as the peer's.
func (b *bulk) shake(raw net.Conn, from multiaddr.Multiaddr, scope network.ConnManagementScope) (*bulkConn, error) {
	leave, err := b.enter(raw)
	if err != nil {
		return nil, err
	}
	defer leave()
	over, err := b.placeToShake(raw, siteOf(from))
	if err != nil {
		return nil, err
	}
	defer over()
	ctx, cancel := context.WithTimeout(b.n.ctx, bulkHandshake)
	defer cancel()
	return b.handshake(ctx, raw, "", scope)
}

// placeToShake lets a connection shake hands. Nobody knows yet whose it is.
func (b *bulk) placeToShake(raw net.Conn, site netip.Prefix) (over func(), err error) {
	b.mu.Lock()
	mine, lost := b.mu.shaking.take(site, func() { _ = raw.Close() })
	b.mu.Unlock()
	if lost != nil {
		lost.evict()
	}
	if mine == nil {
		return nil, errors.New("too many connections shake hands")
	}
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.mu.shaking.leave(mine)
	}, nil
}

// admit counts an accepted connection. Members always have a place: there are few of them, and of each the resource manager takes only so many.
func (b *bulk) admit(c *bulkConn, site netip.Prefix) error {
	member := b.n.isProtected(c.peer)
	lost, err := b.admitted(c, member, site)
	if lost != nil {
		lost.evict()
	}
	return err
}

func (b *bulk) admitted(c *bulkConn, member bool, site netip.Prefix) (lost *place, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.closed {
		return nil, net.ErrClosed
	}
	if !member {
		if c.place, lost = b.mu.strangers.take(site, c.close); c.place == nil {
			return nil, fmt.Errorf("%d bulk connections with streams from peers that are not members: no more", b.mu.strangers.limit)
		}
	}
	b.mu.taken[c] = struct{}{}
	return lost, nil
}

// busy notes whether a stream is served on an accepted connection. A member's needs no place any more.
func (b *bulk) busy(c *bulkConn, streaming bool) {
	member := b.n.isProtected(c.peer)
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.place == nil {
		return
	}
	if c.place.busy = streaming; member {
		b.mu.strangers.leave(c.place)
		c.place = nil
	}
}

// serveStream has a stream handled, and says whether the connection is good for another.
func (b *bulk) serveStream(c *bulkConn, proto protocol.ID) bool {
	handler := b.n.handlerOf(proto)
	key := inboundKey{c.peer, proto}
	if handler == nil || !bulky(proto) || !b.n.admit(key) {
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
