package bulk

import (
	"net/netip"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/p2pdiloco/p2pdiloco/p2p/internal/peers"
)

// peerConns is what is known of the way to one peer.
type peerConns struct {
	conns   map[*conn]struct{} // dialled
	idle    []*conn            // of them
	dialing int
	until   time.Time     // no attempt before
	backoff time.Duration // the last
	// what began before, and fails, says nothing new: since then it is known that attempts fail, or
	// there is another connection
	known time.Time
	// streams in a row whose connections failed under them; those at the same time count once
	broke   int
	brokeAt time.Time // the last
}

// failed puts off the next attempt. Those that run at the same time fail for the same reason:
// together they count once.
func (p *peerConns) failed(began, now time.Time) {
	if !began.After(p.known) {
		return
	}
	p.backoff = min(max(2*p.backoff, minBackoff), maxBackoff)
	p.until, p.known = now.Add(p.backoff), now
}

// peerLocked makes an entry where there is none. mu is held.
func (b *Conns) peerLocked(id peer.ID) *peerConns {
	p := b.mu.peers[id]
	if p == nil {
		p = &peerConns{conns: make(map[*conn]struct{})}
		b.mu.peers[id] = p
	}
	return p
}

// takeIdle takes a connection from the idle ones. Without one it says whether a new one may be
// dialled, which it counts.
func (b *Conns) takeIdle(to peer.ID) (*conn, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.peerLocked(to)
	if n := len(p.idle); n > 0 {
		c := p.idle[n-1]
		p.idle = p.idle[:n-1]
		return c, nil
	}
	if b.stopped() || len(p.conns)+p.dialing >= MaxConns || time.Now().Before(p.until) {
		return nil, errNone
	}
	p.dialing++
	return nil, nil
}

// dialled notes how an attempt ended that began then, and returns the connection if it can be used.
func (b *Conns) dialled(to peer.ID, began time.Time, c *conn, err error) *conn {
	b.mu.Lock()
	p := b.mu.peers[to]
	p.dialing--
	stopped := b.stopped()
	switch {
	case err != nil:
		p.failed(began, time.Now())
	case !stopped:
		p.conns[c] = struct{}{}
		if p.broke == 0 {
			p.backoff = 0
		}
	}
	b.tidy(to, p)
	b.mu.Unlock()
	if err != nil {
		b.env.Log.Debug("no bulk connection to a peer: its streams go over libp2p's", "peer", to, "err", err)
		return nil
	}
	// libp2p's went meanwhile
	if stopped || !b.env.Connected(to) {
		c.close()
		return nil
	}
	return c
}

// useless notes that the connections to a peer, though they come about, carry no stream.
func (b *Conns) useless(to peer.ID, began time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.peerLocked(to).failed(began, time.Now())
}

// maxBroke is how many streams in a row may have their connections fail under them before
// others go over libp2p's for a while: something on the way may let connections come about and end
// them when they have carried much, or for long.
const maxBroke = 3

// broke notes that a stream that began then ended so. What ends with libp2p's connection says
// nothing.
func (b *Conns) broke(id peer.ID, began time.Time) {
	if !b.env.Connected(id) {
		return
	}
	now := time.Now()
	b.mu.Lock()
	p := b.peerLocked(id)
	var idle []*conn
	if began.After(p.brokeAt) {
		p.brokeAt = now
		if p.broke++; p.broke >= maxBroke {
			p.failed(began, now)
			idle = slices.Clone(p.idle)
		}
	}
	b.mu.Unlock()
	for _, c := range idle {
		c.close()
	}
}

// lasted notes that a stream ended well.
func (b *Conns) lasted(id peer.ID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p := b.mu.peers[id]; p != nil && p.broke > 0 {
		p.broke, p.backoff = 0, 0
		b.tidy(id, p)
	}
}

// tidy forgets a peer of which there is nothing to know. mu is held.
func (b *Conns) tidy(id peer.ID, p *peerConns) {
	if len(p.conns) == 0 && p.dialing == 0 && p.backoff == 0 && p.broke == 0 {
		delete(b.mu.peers, id)
	}
}

// forget is for connections that are closed.
func (b *Conns) forget(c *conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.mu.taken, c)
	p := b.mu.peers[c.peer]
	if p == nil || !c.dialled {
		return
	}
	delete(p.conns, c)
	p.idle = slices.DeleteFunc(p.idle, func(other *conn) bool { return other == c })
	b.tidy(c.peer, p)
}

// anew forgets what failed. It is called where libp2p's connections come and go: behind the next
// one another address or process may answer.
func (b *Conns) anew(id peer.ID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p := b.mu.peers[id]; p != nil {
		p.until, p.backoff, p.known, p.broke = time.Time{}, 0, time.Now(), 0
		b.tidy(id, p)
	}
}

// Disconnected ends all connections to a peer.
func (b *Conns) Disconnected(id peer.ID) {
	if b == nil {
		return
	}
	b.anew(id)
	for _, c := range b.connsOf(func(c *conn) bool { return c.peer == id }) {
		c.close()
	}
}

// watch is for Env.Notify.
func (b *Conns) watch() network.Notifiee {
	return &network.NotifyBundle{
		ConnectedF: func(_ network.Network, c network.Conn) { b.anew(c.RemotePeer()) },
		DisconnectedF: func(_ network.Network, c network.Conn) {
			if id := c.RemotePeer(); !b.env.ConnectedDirectly(id) {
				b.Disconnected(id)
			}
		},
	}
}

// EndWhere ends connections whose other end, or this one, is not there any more. What was tried in
// vain before says nothing.
func (b *Conns) EndWhere(dead func(id peer.ID, local netip.Addr, opened time.Time) bool) {
	if b == nil {
		return
	}
	gone := b.connsOf(func(c *conn) bool { return dead(c.peer, peers.OfNet(c.raw.LocalAddr()), c.opened) })
	for _, c := range gone {
		c.close()
		b.anew(c.peer)
	}
}
