package bulk

import (
	"sync/atomic"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

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

// take ends run, and says whether the connection may be used.
func (p *parked) take() bool {
	p.wanted.Store(true)
	// where this fails the connection is closed, and run ends
	_ = p.c.raw.SetReadDeadline(time.Now().Add(-time.Second))
	<-p.done
	return p.healthy && p.c.raw.SetReadDeadline(time.Time{}) == nil
}
