package bulk

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/metrics"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	libp2ptls "github.com/libp2p/go-libp2p/p2p/security/tls"

	"github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/limits"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/peers"
)

const (
	// MaxConns is the most connections of one pair and direction; further streams go over libp2p's
	// connection
	MaxConns = 16
	// connections on which a stream is begun, one after the other, before it goes over libp2p's
	maxTries    = 3
	openTimeout = 5 * time.Second // that this may take in all
	// that opening a stream waits for a new connection before it takes libp2p's
	openPatience     = time.Second
	dialTimeout      = 5 * time.Second  // for TCP, to one address
	handshakeTimeout = 10 * time.Second // for TLS and what follows it
	idleDialled      = time.Minute      // that the dialer keeps a connection without a stream
	// that the acceptor does, so that the dialer is the one to end it
	idleTaken = 5 * time.Minute
	// Where no connection comes about, further attempts wait, longer each time.
	minBackoff, maxBackoff = 30 * time.Second, 10 * time.Minute
)

var (
	errNone   = errors.New("no bulk connection")
	errNoAddr = errors.New("the peer has no TCP address")
)

// Env is what bulk connections need of the Network around them.
type Env struct {
	peers.Env
	Key crypto.PrivKey
	// Upload and Download bound the streams, Count counts their bytes.
	Upload, Download *limits.Bucket
	Count            metrics.Reporter
	// Saw takes in that something came from a peer.
	Saw func(from peer.ID)
	// Admit has a stream of a peer counted, and returns what handles it, which is called once
	// and closes the stream; nil refuses it.
	Admit func(from peer.ID, proto protocol.ID) func(wire.Stream)
}

// Conns are a Network's own TCP connections for much data, beside libp2p's: TLS as there, proving
// the same peer IDs, without a muxer. The swarm does not know of them. A pair has as many as it has
// streams open, in each direction; a connection whose stream has ended cleanly waits for the next.
//
// A stream that finds no connection is not held up: it goes over libp2p's connection, and bulk
// connections are tried for again later. Bulk connections to a peer end with the last of libp2p's
// direct connections to it. To end connections nil Conns may be called, too: there are none.
type Conns struct {
	env      Env
	identity *libp2ptls.Identity
	reach    func(context.Context, peer.ID) (*conn, error) // dial
	// connections accepted: those that shake hands, and those of peers that are not members
	shaking, strangers *limits.Pool
	mu                 struct {
		sync.Mutex
		peers map[peer.ID]*peerConns
		taken map[*conn]struct{} // accepted ones
	}
}

// New begins to take connections out of inlet. All ends with the task group.
func New(env Env, inlet Inlet) (*Conns, error) {
	b := &Conns{env: env, shaking: limits.NewPool(maxShaking), strangers: limits.NewPool(maxStrangers)}
	b.reach = b.dial
	b.mu.peers = make(map[peer.ID]*peerConns)
	b.mu.taken = make(map[*conn]struct{})
	var err error
	if b.identity, err = NewIdentity(env.Key); err != nil {
		return nil, fmt.Errorf("making a TLS certificate: %w", err)
	}
	env.Notify(b.watch())
	env.Tasks.Go(func() { b.acceptAll(inlet) })
	return b, nil
}

// Open begins a stream on a connection that is idle or comes about soon. A peer may accept
// connections and do nothing with them.
func (b *Conns) Open(ctx context.Context, to peer.ID, proto protocol.ID) (*Stream, error) {
	began := time.Now()
	until := began.Add(openTimeout)
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	for tries := 0; tries < maxTries && time.Now().Before(until); tries++ {
		c, err := b.get(ctx, to)
		if err != nil {
			return nil, err
		}
		if err := c.send(kindOpen, []byte(proto), until); err == nil {
			return b.streamOn(c, proto), nil
		}
		c.close() // it was idle for long, perhaps
	}
	b.useless(to, began)
	return nil, errNone
}

// streamOn is a stream that was begun on a dialled connection.
func (b *Conns) streamOn(c *conn, proto protocol.ID) (s *Stream) {
	began := time.Now()
	s = newStream(c, proto, func(clean bool) {
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
func (b *Conns) get(ctx context.Context, to peer.ID) (*conn, error) {
	for {
		c, err := b.takeIdle(to)
		if c == nil {
			if err != nil {
				return nil, err
			}
			return b.await(ctx, to)
		}
		if c.parked.unpark() {
			return c, nil
		}
		c.close()
	}
}

// await dials, and gives up waiting long before the dial does: a connection that comes later is for
// later streams.
func (b *Conns) await(ctx context.Context, to peer.ID) (*conn, error) {
	result, began := make(chan *conn), time.Now()
	patience, cancel := context.WithTimeout(ctx, openPatience)
	defer cancel()
	started := b.env.Tasks.Go(func() {
		c, err := b.reach(b.env.Tasks.Context(), to)
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
		return nil, errNone
	case <-patience.Done():
		return nil, errNone
	}
}

func (b *Conns) connsOf(wanted func(*conn) bool) (conns []*conn) {
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

// stopped says that no connection may begin any more.
func (b *Conns) stopped() bool { return b.env.Tasks.Context().Err() != nil }
