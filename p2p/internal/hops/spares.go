package hops

import (
	"context"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

const (
	// maxSpares is how many streams to one target are kept ready: what a slot opens at about the
	// same time.
	maxSpares = 2
	// spareTerm is for how long one is kept: longer than most slots, and less than carryIdle, after
	// which the forwarder would end it.
	spareTerm = 45 * time.Second
)

// spares are streams whose handshake is done and that are not used yet.
type spares struct {
	mu struct {
		sync.Mutex
		ready    map[peer.ID][]*spare
		underway map[peer.ID]int
	}
}

type spare struct {
	*stream
	end *time.Timer
}

func newSpares() *spares {
	s := &spares{}
	s.mu.ready, s.mu.underway = make(map[peer.ID][]*spare), make(map[peer.ID]int)
	return s
}

// take returns the oldest spare to a target; nil if there is none.
func (s *spares) take(to peer.ID) *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.mu.ready[to]) > 0 {
		first := s.mu.ready[to][0]
		s.drop(to)
		if first.end.Stop() {
			return first.stream
		}
	}
	return nil
}

// drop takes the oldest spare out. s.mu is held.
func (s *spares) drop(to peer.ID) {
	if s.mu.ready[to] = s.mu.ready[to][1:]; len(s.mu.ready[to]) == 0 {
		delete(s.mu.ready, to)
	}
}

// lacking says whether another spare is wanted, and takes note that it is being made.
func (s *spares) lacking(to peer.ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.mu.ready[to])+s.mu.underway[to] >= maxSpares {
		return false
	}
	s.mu.underway[to]++
	return true
}

// made ends what lacking began. made is nil if it failed.
func (s *spares) made(to peer.ID, made *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.underway[to]--; s.mu.underway[to] == 0 {
		delete(s.mu.underway, to)
	}
	if made == nil {
		return
	}
	kept := &spare{stream: made}
	kept.end = time.AfterFunc(spareTerm, func() { s.expire(to, kept) })
	s.mu.ready[to] = append(s.mu.ready[to], kept)
}

// expire ends a spare that nobody took. Older ones have ended before it.
func (s *spares) expire(to peer.ID, old *spare) {
	s.mu.Lock()
	if ready := s.mu.ready[to]; len(ready) > 0 && ready[0] == old {
		s.drop(to)
	}
	s.mu.Unlock()
	_ = old.Close() // not reset: its connection carries the next stream
}

// prepare makes spares to a target in the background.
func (h *Hops) prepare(to peer.ID) {
	for h.spares.lacking(to) {
		started := h.env.Tasks.Go(func() {
			var s *stream
			defer func() { h.spares.made(to, s) }()
			ctx, cancel := context.WithTimeout(h.env.Tasks.Context(), openTimeout)
			defer cancel()
			if ways := h.Ways(to); len(ways) > 0 {
				s, _ = h.shaken(ctx, to, ways) // whoever needs one tries again
			}
		})
		if !started {
			h.spares.made(to, nil)
			return
		}
	}
}
