package p2p

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	libp2ptls "github.com/libp2p/go-libp2p/p2p/security/tls"
	"github.com/multiformats/go-multiaddr"
)

const (
	maxBulkConns  = 16               // of one pair and direction; further streams go over libp2p's connection
	maxBulkTries  = 3                // connections on which a stream is begun, one after the other, before it goes over libp2p's
	bulkOpening   = 5 * time.Second  // that this may take in all
	bulkPatience  = time.Second      // that opening a stream waits for a new connection before it takes libp2p's
	bulkDial      = 5 * time.Second  // for TCP, to one address
	bulkHandshake = 10 * time.Second // for TLS and what follows it
	bulkIdle      = time.Minute      // that the dialer keeps a connection without a stream
	bulkIdleTaken = 5 * time.Minute  // that the acceptor does, so that the dialer is the one to end it
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
	ports    atomic.Pointer[tcpPorts] // of the listeners that the connections share with libp2p's
	news     network.Notifiee
	reach    func(context.Context, peer.ID) (*bulkConn, error) // dial
	mu       struct {
		sync.Mutex
		closed             bool
		peers              map[peer.ID]*bulkPeer
		taken              map[*bulkConn]struct{} // accepted ones, and those that still shake hands
		raw                map[net.Conn]struct{}  // shaking hands
		shaking, strangers places                 // of raw and taken: those accepted, those of peers that are not members
	}
}

func newBulk(n *Network) (*bulk, error) {
	b := &bulk{n: n}
	b.reach = b.dial
	b.mu.peers = make(map[peer.ID]*bulkPeer)
	b.mu.taken = make(map[*bulkConn]struct{})
	b.mu.raw = make(map[net.Conn]struct{})
	b.mu.shaking, b.mu.strangers = newPlaces(maxBulkShaking), newPlaces(maxBulkStrangers)
	var err error
	b.identity, err = newBulkIdentity(n.key)
	return b, err
}

// observes says whether a node may tell how a router translates this peer's port.
func (b *bulk) observes(a multiaddr.Multiaddr) bool {
	return b.n.ranks.prefersQUIC([]multiaddr.Multiaddr{a})
}

// open begins a stream on a connection that is idle or comes about soon. A peer may accept connections and do nothing with them.
func (b *bulk) open(ctx context.Context, to peer.ID, proto protocol.ID) (*bulkStream, error) {
	began := time.Now()
	until := began.Add(bulkOpening)
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	for tries := 0; tries < maxBulkTries && time.Now().Before(until); tries++ {
		c, err := b.get(ctx, to)
		if err != nil {
			return nil, err
		}
		if err := c.send(bulkOpen, []byte(proto), until); err == nil {
			return b.streamOn(c, proto), nil
		}
		c.close() // it was idle for long, perhaps
	}
	b.useless(to, began)
	return nil, errNoBulk
}

// streamOn is a stream that was begun on a dialled connection.
func (b *bulk) streamOn(c *bulkConn, proto protocol.ID) (s *bulkStream) {
	began := time.Now()
	s = newBulkStream(c, proto, func(clean bool) {
		switch {
		case clean:
			b.lasted(c.peer)
			b.park(c)
		case s.broke.Load():
			b.broke(c.peer, began)
		}
	})
	return s
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

// await dials, and gives up waiting long before the dial does: a connection that comes later is for later streams.
func (b *bulk) await(ctx context.Context, to peer.ID) (*bulkConn, error) {
	result, began := make(chan *bulkConn), time.Now()
	patience, cancel := context.WithTimeout(ctx, bulkPatience)
	defer cancel()
	started := b.n.goDo(func() {
		c, err := b.reach(b.n.ctx, to)
		c = b.dialled(to, began, c, err)
		select {
		case result <- c:
		case <-patience.Done():
			if c != nil {
				b.park(c)
			}
		}
	})
	if !started {
		b.dialled(to, began, nil, net.ErrClosed)
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
