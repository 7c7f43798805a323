package p2p

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	libp2ptls "github.com/libp2p/go-libp2p/p2p/security/tls"
)

const (
	maxBulkConns  = 16               // of one pair and direction; further streams go over libp2p's connection
	bulkPatience  = time.Second      // that opening a stream waits for a new connection before it takes libp2p's
	bulkDial      = 5 * time.Second  // for TCP, to one address
	bulkHandshake = 10 * time.Second // for TLS and what follows it
	bulkIdle      = time.Minute      // that the dialer keeps a connection without a stream
	bulkIdleTaken = 5 * time.Minute  // that the acceptor does, so that the dialer is the one to end it
	// A TLS 1.3 connection should not carry more than 2^24.5 records under one key (RFC 8446, 5.5): 388 GB.
	maxBulkConnBytes = 256 << 30
	// Where no connection comes about, further attempts wait, longer each time.
	minBulkBackoff, maxBulkBackoff = 30 * time.Second, 10 * time.Minute
)

var (
	errNoBulk     = errors.New("no bulk connection")
	errNoBulkAddr = errors.New("the peer has no TCP address")
)

// bulk is the Network's own TCP connections for much data, beside libp2p's: TLS as there, proving the same peer IDs, without a muxer.
// The swarm does not know of them. A pair has as many as it has streams open, in each direction; a connection whose stream has ended cleanly
// waits for the next.
//
// A stream that finds no connection is not held up: it goes over libp2p's connection, and bulk connections are tried for again later.
// Bulk connections to a peer end with the last of libp2p's connections to it.
type bulk struct {
	n        *Network
	identity *libp2ptls.Identity
	news     network.Notifiee
	mu       struct {
		sync.Mutex
		closed bool
		peers  map[peer.ID]*bulkPeer
		taken  map[*bulkConn]struct{} // accepted ones, and those that still shake hands
		raw    map[net.Conn]struct{}  // shaking hands
	}
}

// bulkPeer is what is known of the way to one peer.
type bulkPeer struct {
	conns   map[*bulkConn]struct{} // dialled
	idle    []*bulkConn            // of them
	dialing int
	until   time.Time     // no attempt before
	backoff time.Duration // the last
}

func newBulk(n *Network) (*bulk, error) {
	b := &bulk{n: n}
	b.mu.peers = make(map[peer.ID]*bulkPeer)
	b.mu.taken = make(map[*bulkConn]struct{})
	b.mu.raw = make(map[net.Conn]struct{})
	var err error
	b.identity, err = newBulkIdentity(n.key)
	return b, err
}

// open begins a stream on a connection that is idle or comes about soon.
func (b *bulk) open(ctx context.Context, to peer.ID, proto protocol.ID) (*bulkStream, error) {
	for {
		c, err := b.get(ctx, to)
		if err != nil {
			return nil, err
		}
		if err := c.send(bulkOpen, []byte(proto), time.Now().Add(endTimeout)); err != nil {
			c.close()
			continue // it was idle for long, perhaps
		}
		return newBulkStream(c, proto, func(clean bool) {
			if clean {
				b.park(c)
			}
		}), nil
	}
}

// get takes an idle connection, or waits a moment for a new one.
func (b *bulk) get(ctx context.Context, to peer.ID) (*bulkConn, error) {
	for {
		c, err := b.takeIdle(to)
		if c == nil {
			if err != nil {
				return nil, err
			}
			return b.await(ctx, to)
		}
		if c.parked.take() {
			return c, nil
		}
		c.close()
	}
}

// takeIdle takes a connection from the idle ones. Without one it says whether a new one may be dialled, which it counts.
func (b *bulk) takeIdle(to peer.ID) (*bulkConn, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.mu.peers[to]
	if p == nil {
		p = &bulkPeer{conns: make(map[*bulkConn]struct{})}
		b.mu.peers[to] = p
	}
	if n := len(p.idle); n > 0 {
		c := p.idle[n-1]
		p.idle = p.idle[:n-1]
		return c, nil
	}
	if b.mu.closed || len(p.conns)+p.dialing >= maxBulkConns || time.Now().Before(p.until) {
		return nil, errNoBulk
	}
	p.dialing++
	return nil, nil
}

// await dials, and gives up waiting long before the dial does: a connection that comes later is for later streams.
func (b *bulk) await(ctx context.Context, to peer.ID) (*bulkConn, error) {
	result := make(chan *bulkConn)
	patience, cancel := context.WithTimeout(ctx, bulkPatience)
	defer cancel()
	started := b.n.goDo(func() {
		c, err := b.dial(b.n.ctx, to)
		b.dialled(to, c, err)
		select {
		case result <- c:
		case <-patience.Done():
			if c != nil {
				b.park(c)
			}
		}
	})
	if !started {
		b.dialled(to, nil, net.ErrClosed)
		return nil, net.ErrClosed
	}
	select {
	case c := <-result:
		if c != nil {
			return c, nil
		}
		return nil, errNoBulk
	case <-patience.Done():
		return nil, errNoBulk
	}
}

// dialled notes how an attempt ended.
func (b *bulk) dialled(to peer.ID, c *bulkConn, err error) {
	b.mu.Lock()
	p := b.mu.peers[to]
	p.dialing--
	closed := b.mu.closed
	switch {
	case err != nil:
		p.backoff = min(max(2*p.backoff, minBulkBackoff), maxBulkBackoff)
		p.until = time.Now().Add(p.backoff)
	case !closed:
		p.conns[c] = struct{}{}
		p.backoff = 0
	}
	b.tidy(to, p)
	b.mu.Unlock()
	if err != nil {
		b.n.log.Debug("no bulk connection to a peer: its streams go over libp2p's", "peer", to, "err", err)
	} else if closed {
		c.close()
	}
}

// tidy forgets a peer of which there is nothing to know. mu is held.
func (b *bulk) tidy(id peer.ID, p *bulkPeer) {
	if len(p.conns) == 0 && p.dialing == 0 && p.backoff == 0 {
		delete(b.mu.peers, id)
	}
}

// forget is for connections that are closed.
func (b *bulk) forget(c *bulkConn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.mu.taken, c)
	p := b.mu.peers[c.peer]
	if p == nil || !c.dialled {
		return
	}
	delete(p.conns, c)
	for i, other := range p.idle {
		if other == c {
			p.idle = append(p.idle[:i], p.idle[i+1:]...)
			break
		}
	}
	b.tidy(c.peer, p)
}

// connected has a peer's bulk connections tried for again at once: another address or process may answer.
func (b *bulk) connected(id peer.ID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p := b.mu.peers[id]; p != nil {
		p.until, p.backoff = time.Time{}, 0
		b.tidy(id, p)
	}
}

// disconnected ends all connections to a peer.
func (b *bulk) disconnected(id peer.ID) {
	for _, c := range b.connsOf(func(c *bulkConn) bool { return c.peer == id }) {
		c.close()
	}
}

func (b *bulk) connsOf(wanted func(*bulkConn) bool) (conns []*bulkConn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.mu.taken {
		if wanted(c) {
			conns = append(conns, c)
		}
	}
	for _, p := range b.mu.peers {
		for c := range p.conns {
			if wanted(c) {
				conns = append(conns, c)
			}
		}
	}
	return conns
}

// watch is for host.Network().Notify.
func (b *bulk) watch() network.Notifiee {
	return &network.NotifyBundle{
		ConnectedF: func(_ network.Network, c network.Conn) { b.connected(c.RemotePeer()) },
		DisconnectedF: func(w network.Network, c network.Conn) {
			if id := c.RemotePeer(); w.Connectedness(id) != network.Connected {
				b.disconnected(id)
			}
		},
	}
}

// close ends all connections. Their goroutines belong to the Network.
func (b *bulk) close() {
	b.mu.Lock()
	b.mu.closed = true
	raw := make([]net.Conn, 0, len(b.mu.raw))
	for c := range b.mu.raw {
		raw = append(raw, c)
	}
	b.mu.Unlock()
	for _, c := range raw {
		_ = c.Close() // it is ended in any case
	}
	for _, c := range b.connsOf(func(*bulkConn) bool { return true }) {
		c.close()
	}
}

// enter keeps a connection that shakes hands where close finds it. The returned function takes it out.
func (b *bulk) enter(c net.Conn) (leave func(), err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.closed {
		return nil, net.ErrClosed
	}
	b.mu.raw[c] = struct{}{}
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.mu.raw, c)
	}, nil
}
