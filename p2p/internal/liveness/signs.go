package liveness

import (
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

const (
	// pulsesMissed is how many pulses' time a member may send nothing before its connections are
	// closed.
	pulsesMissed = 3
	// pulsesExcused is for how many pulses' time bytes on bulk connections stand for pulses:
	// libp2p's connection, over which all else goes, may have died alone. On a link that is full a
	// pulse may be late by some seconds.
	pulsesExcused = 30
)

// Signs are the signs of life of peers that pulse over their present connections. Other peers are
// not judged: they may be older programs, or strangers.
type Signs struct {
	mu struct {
		sync.Mutex
		heard map[peer.ID]heard
	}
}

// heard is when a peer last sent something.
type heard struct {
	atAll time.Time
	here  time.Time // over libp2p's connections
}

// NewSigns begins without any.
func NewSigns() *Signs {
	s := &Signs{}
	s.mu.heard = make(map[peer.ID]heard)
	return s
}

// Pulsed notes a pulse. Any peer that is connected may send one, members or not yet.
func (s *Signs) Pulsed(id peer.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.mu.heard[id] = heard{now, now}
}

// Saw notes that something came on a stream: a bulk stream, or one of libp2p's connections.
func (s *Signs) Saw(id peer.ID, bulk bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h, pulsing := s.mu.heard[id]
	if !pulsing {
		return
	}
	if h.atAll = time.Now(); !bulk {
		h.here = h.atAll
	}
	s.mu.heard[id] = h
}

// forget judges a peer no more until its next pulse.
func (s *Signs) forget(id peer.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.heard, id)
}

// excuse judges no peer by the time that this process itself stood still.
func (s *Signs) excuse(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.mu.heard {
		s.mu.heard[id] = heard{now, now}
	}
}

// silent lists the peers that have sent nothing for too long, and forgets them.
func (s *Signs) silent(pulse time.Duration, now time.Time) (ids []peer.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, h := range s.mu.heard {
		if now.Sub(h.atAll) > pulsesMissed*pulse || now.Sub(h.here) > pulsesExcused*pulse {
			delete(s.mu.heard, id)
			ids = append(ids, id)
		}
	}
	return ids
}
