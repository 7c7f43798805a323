package bulk

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

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/addr"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/limits"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/tcpnet"
)

const (
	maxStrangers = 256 // bulk connections accepted from peers that are not members
	maxShaking   = 512 // connections accepted that shake hands
	// aloneTimeout is how long a connection waits for libp2p's with that peer, which may be known
	// here a moment later than there.
	aloneTimeout = 5 * time.Second
)

// accept takes a connection, and returns at once.
func (b *Conns) accept(in tcpnet.Incoming) {
	started := b.env.Tasks.Go(func() {
		if err := b.serve(in); err != nil {
			b.env.Log.Debug("a bulk connection ended", "from", in.From, "err", err)
		}
		in.End()
	})
	if !started {
		in.End()
	}
}

// serve carries the streams of one connection, one after the other, to their handlers.
func (b *Conns) serve(in tcpnet.Incoming) error {
	c, err := b.shake(in)
	if err != nil {
		return err
	}
	defer c.close()
	if err := b.admit(c, addr.Site(in.From)); err != nil {
		return err
	}
	if err := b.accompanied(c.peer); err != nil {
		return err
	}
	if err := c.send(kindReady, nil, time.Now().Add(handshakeTimeout)); err != nil {
		return err
	}
	for {
		proto, err := c.expect(kindOpen, time.Now().Add(idleTaken))
		if err != nil {
			return err
		}
		b.busy(c, true)
		if !b.serveStream(c, protocol.ID(proto)) {
			return nil
		}
		b.busy(c, false)
		c.records.Shrink()
	}
}

// accompanied waits until libp2p has a connection to a peer: by that its life is judged, and with
// that the others end.
func (b *Conns) accompanied(id peer.ID) error {
	ctx, cancel := context.WithTimeout(b.env.Tasks.Context(), aloneTimeout)
	defer cancel()
	ctx, over := b.env.Dialer.Until(ctx, id)
	defer over()
	connected := func() bool { return b.env.Host.Network().Connectedness(id) == network.Connected }
	if connected() {
		return nil
	}
	if <-ctx.Done(); connected() {
		return nil
	}
	return fmt.Errorf("a bulk connection of %s, to which libp2p has none", slot.PeerID(id).Short())
}

// shake is the handshake, after which the connection counts as the peer's.
func (b *Conns) shake(in tcpnet.Incoming) (*conn, error) {
	leave, err := b.enter(in.Conn)
	if err != nil {
		return nil, err
	}
	defer leave()
	over, err := b.placeToShake(in.Conn, addr.Site(in.From))
	if err != nil {
		return nil, err
	}
	defer over()
	ctx, cancel := context.WithTimeout(b.env.Tasks.Context(), handshakeTimeout)
	defer cancel()
	return b.handshake(ctx, in.Conn, "", in.Scope)
}

// placeToShake lets a connection shake hands. Nobody knows yet whose it is.
func (b *Conns) placeToShake(raw net.Conn, site netip.Prefix) (over func(), err error) {
	b.mu.Lock()
	mine, lost := b.mu.shaking.Take(site, func() { _ = raw.Close() })
	b.mu.Unlock()
	if lost != nil {
		lost.Evict()
	}
	if mine == nil {
		return nil, errors.New("too many connections shake hands")
	}
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.mu.shaking.Return(mine)
	}, nil
}

// admit counts an accepted connection. Members always have a place: there are few of them, and of
// each the resource manager takes only so many.
func (b *Conns) admit(c *conn, site netip.Prefix) error {
	member := b.env.Members.Has(c.peer)
	lost, err := b.admitted(c, member, site)
	if lost != nil {
		lost.Evict()
	}
	return err
}

func (b *Conns) admitted(c *conn, member bool, site netip.Prefix) (lost *limits.Lease, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.closed {
		return nil, net.ErrClosed
	}
	if !member {
		if c.place, lost = b.mu.strangers.Take(site, c.close); c.place == nil {
			return nil, fmt.Errorf("%d bulk connections with streams from peers that are not members: no more",
				b.mu.strangers.Limit())
		}
	}
	b.mu.taken[c] = struct{}{}
	return lost, nil
}

// busy notes whether a stream is served on an accepted connection. A member's needs no place any
// more.
func (b *Conns) busy(c *conn, streaming bool) {
	member := b.env.Members.Has(c.peer)
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.place == nil {
		return
	}
	if c.place.Busy = streaming; member {
		b.mu.strangers.Return(c.place)
		c.place = nil
	}
}

// serveStream has a stream handled, and says whether the connection is good for another.
func (b *Conns) serveStream(c *conn, proto protocol.ID) bool {
	handle := b.env.Admit(c.peer, proto)
	if handle == nil {
		return false
	}
	ended := make(chan bool, 1)
	s := newStream(c, proto, func(clean bool) { ended <- clean })
	handle(s)
	return <-ended
}
