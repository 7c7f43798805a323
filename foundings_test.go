package p2pdiloco

import (
	"testing"
	"time"
)

// Two groups that cannot see each other found the same run. When they meet, the chain of less work gives way.
func TestTwoFoundingsMeet(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(16, 1), 5, func(s *swarm) {
		s.pace(50 * time.Millisecond)
		large, small := s.peers[:3], s.peers[3:]
		s.cut(true, large, small)
		s.start(s.peers...)
		s.reach(3, s.peers...)
		s.cut(false, large, small)
		s.finish(5*time.Minute, s.peers...)
		switched := 0
		for _, p := range s.peers {
			switched += len(p.events("run.switched"))
		}
		if switched < len(small) || switched > len(large) {
			t.Errorf("%d peers gave their chain up: those of one side should", switched)
		}
	})
}

// Two peers that found alone at the same moment, each with work done.
func TestTwoLoneFoundersMeet(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(16, 1), 2, func(s *swarm) {
		s.pace(50 * time.Millisecond)
		a, b := s.peers[:1], s.peers[1:]
		s.cut(true, a, b)
		s.start(s.peers...)
		s.reach(3, s.peers...)
		s.cut(false, a, b)
		s.finish(5*time.Minute, s.peers...)
		if n := len(a[0].events("run.switched")) + len(b[0].events("run.switched")); n != 1 {
			t.Errorf("%d of 2 founders gave its chain up", n)
		}
	})
}
