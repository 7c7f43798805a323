package statesync

import (
	"sync"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// idleGrace is how long a stream may wait for its next request while others are refused.
const idleGrace = 2 * time.Second

// admission decides which streams are served, and which are told that the server is busy.
type admission struct {
	streams, perPeer int // at most

	wg sync.WaitGroup // of the seats taken
	mu struct {
		sync.Mutex
		closed  bool
		served  int                 // streams that are served
		others  int                 // of these, to peers that are not preferred
		perPeer map[slot.PeerID]int // of these, by peer
		refused int                 // streams that are told that the server is busy
		idle    map[*seat]struct{}  // of the served: those that wait for a request
	}
}

func newAdmission(streams, perPeer int) *admission {
	a := &admission{streams: streams, perPeer: perPeer}
	a.mu.perPeer, a.mu.idle = map[slot.PeerID]int{}, map[*seat]struct{}{}
	return a
}

// seat is the place of one stream.
type seat struct {
	from      slot.PeerID
	preferred bool
	interrupt func() // makes a wait for the next request return

	admitted bool      // otherwise the peer is told that the server is busy
	since    time.Time // when it became idle
}

// enter counts a stream in. It returns false if the stream gets no answer at all. It decides
// c.admitted.
func (a *admission) enter(c *seat) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	full := a.mu.served >= a.streams || !c.preferred && a.mu.others >= max(1, a.streams/2)
	c.admitted = !full && a.mu.perPeer[c.from] < a.perPeer
	switch {
	case a.mu.closed, !c.admitted && a.mu.refused >= a.streams:
		return false
	case c.admitted:
		a.mu.served++
		a.mu.perPeer[c.from]++
		if !c.preferred {
			a.mu.others++
		}
	default:
		a.mu.refused++
		if full {
			a.cutIdle()
		}
	}
	a.wg.Add(1)
	return true
}

// cutIdle ends the stream that has waited longest for a request, so that streams that ask for
// nothing do not keep others out. mu is held.
func (a *admission) cutIdle() {
	var longest *seat
	for c := range a.mu.idle {
		if longest == nil || c.since.Before(longest.since) {
			longest = c
		}
	}
	if longest != nil && time.Since(longest.since) > idleGrace {
		delete(a.mu.idle, longest)
		longest.interrupt() // its goroutine does the rest
	}
}

// leave counts a stream out.
func (a *admission) leave(c *seat) {
	defer a.wg.Done()
	a.mu.Lock()
	defer a.mu.Unlock()
	if !c.admitted {
		a.mu.refused--
		return
	}
	a.mu.served--
	if !c.preferred {
		a.mu.others--
	}
	if a.mu.perPeer[c.from]--; a.mu.perPeer[c.from] == 0 {
		delete(a.mu.perPeer, c.from)
	}
}

// setIdle notes whether a stream waits for a request.
func (a *admission) setIdle(c *seat, idle bool) {
	if !c.admitted {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if idle {
		c.since = time.Now()
		a.mu.idle[c] = struct{}{}
	} else {
		delete(a.mu.idle, c)
	}
}

// close lets no more streams in. It returns false if that was done before.
func (a *admission) close() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.mu.closed {
		return false
	}
	a.mu.closed = true
	return true
}
