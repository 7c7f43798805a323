package faults

import (
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
)

// A process that is stopped (SIGSTOP) for less than Timing.Lost, 1.5 s here: nobody misses it, and
// it goes on where it was.
func TestStoppedForLessThanLost(t *testing.T) {
	nodetest.Play(t, scenario{Slots: 6, Peers: 3, Pace: 50 * time.Millisecond}, func(s *swarm) {
		p := s.Peers[1]
		s.Start(s.Peers...)
		s.Reach(2, s.Peers...)
		s.Freeze(p)
		time.Sleep(time.Second)
		s.Thaw(p)
		s.Finish(2*time.Minute, s.Peers...)
		if got := s.Contributions(p); len(got) != 6 {
			s.T.Errorf("it contributed to slots %v, want all", got)
		}
		for _, q := range s.Peers {
			if q.Had("peer.left") || q.Had("peer.suspected") || q.Had("run.paused") {
				s.T.Errorf("host %d missed somebody for a stop of a second", q.Host)
			}
		}
	})
}

// All are stopped at once, a laptop's lid over all of them, and go on: nothing is lost.
func TestAllStoppedAtOnce(t *testing.T) {
	nodetest.Play(t, scenario{Slots: 6, Peers: 3}, func(s *swarm) {
		s.Start(s.Peers...)
		s.Reach(2, s.Peers...)
		for _, p := range s.Peers {
			s.Freeze(p)
		}
		time.Sleep(10 * time.Second)
		for _, p := range s.Peers {
			s.Thaw(p)
		}
		s.Finish(2*time.Minute, s.Peers...)
	})
}
