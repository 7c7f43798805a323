package bulk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/peers"
)

// maxAddrs is how many of a peer's addresses are tried for a bulk connection.
const maxAddrs = 4

// dial tries the peer's TCP addresses, one after the other.
func (b *Conns) dial(ctx context.Context, to peer.ID) (*conn, error) {
	addrs := dialable(b.env.Host.Network().ConnsToPeer(to), b.env.Book.Best(to))
	if len(addrs) == 0 {
		return nil, errNoAddr
	}
	var errs []error
	for _, a := range addrs {
		c, err := b.dialAddr(ctx, to, a)
		if err == nil {
			return c, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		errs = append(errs, fmt.Errorf("%s: %w", a, err))
	}
	return nil, errors.Join(errs...)
}

func (b *Conns) dialAddr(ctx context.Context, to peer.ID, a multiaddr.Multiaddr) (*conn, error) {
	scope, err := b.env.Host.Network().ResourceManager().OpenConnection(network.DirOutbound, true, a)
	if err != nil {
		return nil, err
	}
	c, err := b.dialScoped(ctx, to, a, scope)
	if err != nil {
		scope.Done()
		return nil, err
	}
	return c, nil
}

func (b *Conns) dialScoped(ctx context.Context, to peer.ID, a multiaddr.Multiaddr,
	scope network.ConnManagementScope,
) (*conn, error) {
	if err := scope.SetPeer(to); err != nil {
		return nil, err
	}
	dialing, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	raw, err := new(manet.Dialer).DialContext(dialing, a)
	if err != nil {
		return nil, err
	}
	PrepareTCP(raw)
	shaking, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	defer context.AfterFunc(shaking, func() { _ = raw.Close() })()
	c, err := b.handshake(shaking, raw, to, scope)
	if err == nil {
		_, err = c.expect(kindReady, time.Now().Add(handshakeTimeout))
	}
	if err != nil {
		_ = raw.Close() // it may be closed already
	}
	return c, err
}

// dialable are those of a peer's best addresses that bulk connections are tried at. Of a peer that
// is reached through a relay there are none: its addresses are tried for libp2p's connection now
// and then, and each stream would wait for their silence here.
func dialable(conns []network.Conn, best []multiaddr.Multiaddr) []multiaddr.Multiaddr {
	direct := func(c network.Conn) bool { return !peers.IsRelayed(c.RemoteMultiaddr()) }
	if !slices.ContainsFunc(conns, direct) {
		return nil
	}
	best = slices.DeleteFunc(slices.Clone(best), func(a multiaddr.Multiaddr) bool { return !peers.IsPlainTCP(a) })
	return best[:min(len(best), maxAddrs)]
}

// parked is a dialled connection between two streams. A goroutine reads from it: nothing may come,
// so that it learns of the connection's end at once.
type parked struct {
	c       *conn
	wanted  atomic.Bool
	done    chan struct{} // closed when nobody reads any more
	healthy bool          // nothing has come; to be read after done
}

// park keeps a connection for the next stream.
func (b *Conns) park(c *conn) {
	if c.worn() || c.raw.SetReadDeadline(time.Now().Add(idleDialled)) != nil {
		c.close()
		return
	}
	c.records.Shrink()
	p := &parked{c: c, done: make(chan struct{})}
	if !b.env.Tasks.Go(p.run) {
		c.close()
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	c.parked = p
	if peer := b.mu.peers[c.peer]; peer != nil {
		if _, ours := peer.conns[c]; ours { // else it has been closed
			peer.idle = append(peer.idle, c)
		}
	}
}

// run ends when the connection is wanted, or has been idle for long, or fails.
func (p *parked) run() {
	_, err := p.c.readHeader()
	if p.healthy = wire.TimedOut(err) && p.c.got == 0; !p.wanted.Load() {
		p.healthy = false
		p.c.close()
	}
	close(p.done)
}

// unpark ends run, and says whether the connection may be used.
func (p *parked) unpark() bool {
	p.wanted.Store(true)
	// where this fails the connection is closed, and run ends
	_ = p.c.raw.SetReadDeadline(time.Now().Add(-time.Second))
	<-p.done
	return p.healthy && p.c.raw.SetReadDeadline(time.Time{}) == nil
}
