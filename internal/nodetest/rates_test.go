package nodetest

import (
	"testing"
	"time"
)

// A status says how fast the ways to others are, by what the reductions have sent there.
func TestRatesOfWays(t *testing.T) {
	Run(t, Spec(5, 2), 0, func(s *Swarm) {
		s.Net.Rate = 400_000_000 // bits a second
		for range 2 {
			bowl := s.Add().Trainer.(*Bowl)
			bowl.Size, bowl.Noisy = 3_000_000, true // of less, buffers take most at once
		}
		s.Start(s.Peers...)
		s.Reach(4, s.Peers...)
		for i, p := range s.Peers {
			if own, other := s.Member(p, p), s.Member(p, s.Peers[1-i]); own.Rate != 0 || other.Rate < 30_000 ||
				other.Rate > 100_000 {
				s.T.Errorf("host %d: %d kB/s, and to itself %d", p.Host, other.Rate, own.Rate)
			}
		}
		s.Finish(time.Minute, s.Peers...)
	})
}
