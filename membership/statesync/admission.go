package statesync

import (
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// idleGrace is how long a stream may wait for its next request while others are told that the server is busy.
const idleGrace = 2 * time.Second

// session is one stream that is served.
type session struct {
	from      slot.PeerID
	st        wire.Stream
	preferred bool
	admitted  bool      // else it is told that the server is busy
	since     time.Time // that it waits for a request, while it is among the idle
	buf       scratch
}

// enter counts a stream in and says whether it is worth an answer, if only that the server is busy.
func (s *Server) enter(c *session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	full := s.mu.served >= s.cfg.Streams || !c.preferred && s.mu.others >= max(1, s.cfg.Streams/2)
	c.admitted = !full && s.mu.perPeer[c.from] < s.cfg.PerPeer
	switch {
	case s.mu.closed, !c.admitted && s.mu.refused >= s.cfg.Streams:
		return false
	case c.admitted:
		s.mu.served++
		s.mu.perPeer[c.from]++
		if !c.preferred {
			s.mu.others++
		}
	default:
		s.mu.refused++
		if full {
			s.cutIdle()
		}
	}
	s.wg.Add(1)
	return true
}

// cutIdle ends the stream that has waited longest for a request: who only holds a place must not keep others out. mu is held.
func (s *Server) cutIdle() {
	var longest *session
	for c := range s.mu.idle {
		if longest == nil || c.since.Before(longest.since) {
			longest = c
		}
	}
	if longest != nil && time.Since(longest.since) > idleGrace {
		delete(s.mu.idle, longest)
		_ = longest.st.SetReadDeadline(time.Now()) // its goroutine does the rest
	}
}

func (s *Server) leave(c *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !c.admitted {
		s.mu.refused--
		return
	}
	s.mu.served--
	if !c.preferred {
		s.mu.others--
	}
	if s.mu.perPeer[c.from]--; s.mu.perPeer[c.from] == 0 {
		delete(s.mu.perPeer, c.from)
	}
}

// await reads the next request of a stream, which is idle until it is there.
func (s *Server) await(c *session) (request, error) {
	if c.admitted {
		c.since = time.Now()
		s.setIdle(c, true)
		defer s.setIdle(c, false)
	}
	return s.readRequest(c.st)
}

func (s *Server) setIdle(c *session, idle bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if idle {
		s.mu.idle[c] = struct{}{}
	} else {
		delete(s.mu.idle, c)
	}
}
