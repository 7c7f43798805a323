package hops

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// Bounds on what one member forwards at once. A stream holds two rooms of carryRoom bytes here,
// besides what the windows of its two connections let in.
const (
	maxPair   = 16  // streams of one origin to one target
	maxAll    = 256 // streams
	originOf  = 3   // an origin has no more than one stream for each three that are free
	carryRoom = 64 << 10
	// carryIdle ends a stream on which nothing comes in either direction, or nothing is taken in
	// one. What is carried says more often than that that it is alive.
	carryIdle = time.Minute
)

type pair struct{ origin, target peer.ID }

// load counts the streams that are forwarded. Each origin leaves three quarters of what it finds
// free to the next ones: 64 streams to the first, 6 to the ninth if all before it take what they
// can.
type load struct {
	mu struct {
		sync.Mutex
		of  map[pair]int
		by  map[peer.ID]int // of an origin
		all int
	}
}

func newLoad() *load {
	l := &load{}
	l.mu.of, l.mu.by = make(map[pair]int), make(map[peer.ID]int)
	return l
}

func (l *load) enter(origin, target peer.ID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := pair{origin, target}
	if originOf*l.mu.by[origin] >= maxAll-l.mu.all || l.mu.of[p] >= maxPair {
		return false
	}
	l.mu.all++
	l.mu.of[p]++
	l.mu.by[origin]++
	return true
}

func (l *load) leave(origin, target peer.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := pair{origin, target}
	l.mu.all--
	if l.mu.of[p]--; l.mu.of[p] == 0 {
		delete(l.mu.of, p)
	}
	if l.mu.by[origin]--; l.mu.by[origin] == 0 {
		delete(l.mu.by, origin)
	}
}

// carry copies both ways until both have ended or one has failed, and passes on how they end. It
// ends both streams.
func carry(a, b wire.Stream) error {
	c := &carried{began: time.Now()}
	var back error
	var wg sync.WaitGroup
	wg.Go(func() {
		if back = c.copy(a, b); back != nil {
			_, _ = a.Reset(), b.Reset() // the other direction ends, too
		}
	})
	there := c.copy(b, a)
	if there != nil {
		_, _ = a.Reset(), b.Reset()
	}
	wg.Wait()
	if err := errors.Join(there, back); err != nil {
		return err
	}
	return errors.Join(a.Close(), b.Close())
}

// carried is a stream that is carried.
type carried struct {
	began time.Time
	moved atomic.Int64 // how long after that something last came, in either direction
}

// idle says whether nothing came for carryIdle. One direction alone may be silent for long.
func (c *carried) idle(now time.Time) bool {
	return now.Sub(c.began)-time.Duration(c.moved.Load()) >= carryIdle
}

// copy copies until from ends, and then ends the direction of to.
func (c *carried) copy(to, from wire.Stream) error {
	room := make([]byte, carryRoom)
	for {
		if err := from.SetReadDeadline(time.Now().Add(carryIdle)); err != nil {
			return err
		}
		n, err := from.Read(room)
		now := time.Now()
		if n > 0 {
			c.moved.Store(int64(now.Sub(c.began)))
			if err := to.SetWriteDeadline(now.Add(carryIdle)); err != nil {
				return err
			}
			if _, err := to.Write(room[:n]); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			if err := to.SetWriteDeadline(now.Add(carryIdle)); err != nil {
				return err
			}
			return to.CloseWrite()
		case err != nil && (!wire.TimedOut(err) || c.idle(now)):
			return err
		}
	}
}
