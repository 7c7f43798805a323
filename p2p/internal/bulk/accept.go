package bulk

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/peers"
)

const (
	maxStrangers = 256 // bulk connections accepted from peers that are not members
	maxShaking   = 512 // connections accepted that shake hands
	// aloneTimeout is how long a connection waits for libp2p's with that peer, which may be known
	// here a moment later than there.
	aloneTimeout = 5 * time.Second
)

// acceptAll accepts connections until the task group ends, and then ends all.
func (b *Conns) acceptAll(inlet Inlet) {
	for {
		select {
		case in := <-inlet:
			b.accept(in)
		case <-b.env.Tasks.Context().Done():
			for _, c := range b.connsOf(func(*conn) bool { return true }) {
				c.close()
			}
			return
		}
	}
}

// accept takes a connection, and returns at once.
func (b *Conns) accept(in Incoming) {
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
func (b *Conns) serve(in Incoming) error {
	c, err := b.shake(in)
	if err != nil {
		return err
	}
	defer c.close()
	if err := b.admit(c, peers.Site(in.From)); err != nil {
		return err
	}
	defer func() { c.place.Return() }()
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
	if b.env.Connected(id) {
		return nil
	}
	if <-ctx.Done(); b.env.Connected(id) {
		return nil
	}
	return fmt.Errorf("a bulk connection of %s, to which libp2p has none", slot.PeerID(id).Short())
}

// shake is the handshake, after which the connection counts as the peer's. Until then nobody knows
// whose it is.
func (b *Conns) shake(in Incoming) (*conn, error) {
	place := b.shaking.Take(peers.Site(in.From), func() { _ = in.Close() })
	if place == nil {
		return nil, errors.New("too many connections shake hands")
	}
	defer place.Return()
	ctx, cancel := context.WithTimeout(b.env.Tasks.Context(), handshakeTimeout)
	defer cancel()
	return b.handshake(ctx, in.Conn, "", in.Scope)
}

// admit counts an accepted connection. Members always have a place: there are few of them, and of
// each the resource manager takes only so many.
func (b *Conns) admit(c *conn, site netip.Prefix) error {
	b.mu.Lock()
	stopped := b.stopped()
	if !stopped {
		b.mu.taken[c] = struct{}{}
	}
	b.mu.Unlock()
	switch {
	case stopped:
		return net.ErrClosed
	case b.env.Members.Has(c.peer):
		return nil
	}
	if c.place = b.strangers.Take(site, c.close); c.place == nil {
		c.close()
		return fmt.Errorf("%d bulk connections with streams from peers that are not members: no more",
			b.strangers.Held())
	}
	return nil
}

// busy notes whether a stream is served on an accepted connection. A member's needs no place any
// more.
func (b *Conns) busy(c *conn, streaming bool) {
	if c.place.SetBusy(streaming); b.env.Members.Has(c.peer) {
		c.place.Return()
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
