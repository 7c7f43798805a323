package auditor

import (
	"errors"
	"sync"
	"time"
)

var errStoodStill = errors.New("this process stood still while it waited")

// stops notices whether this process stands still while it waits for others: it is stopped, or its
// machine sleeps. That a deadline has passed meanwhile says nothing of them.
type stops struct {
	now  func() time.Time
	most time.Duration // between two looks
	mu   struct {
		sync.Mutex
		last  time.Time // when it looked
		stood bool
		timer *time.Timer // to the next look; nil: the watch is over
	}
}

// watch begins to look. The caller ends it. A stop that goes unnoticed leaves others half of the
// time that an answer has.
func (a *Auditor) watch() *stops {
	s := &stops{now: a.now, most: a.cfg.Timeout / 2}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.last = s.now()
	s.mu.timer = time.AfterFunc(s.most/2, s.tick)
	return s
}

func (s *stops) tick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.timer != nil {
		s.look()
		s.mu.timer.Reset(s.most / 2)
	}
}

// look compares the clock with that of the last look. The monotonic clock may stop while the
// machine sleeps; that of the day goes on. mu is held.
func (s *stops) look() {
	last, now := s.mu.last, s.now()
	s.mu.last = now
	if max(now.Sub(last), now.Round(0).Sub(last.Round(0))) > s.most {
		s.mu.stood = true
	}
}

// end ends the watch, and says whether this process stood still meanwhile.
func (s *stops) end() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.timer != nil {
		s.look()
		s.mu.timer.Stop()
		s.mu.timer = nil
	}
	return s.mu.stood
}
