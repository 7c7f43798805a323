package partitions

import (
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
)

// Two groups that cannot see each other found the same run. When they meet, the chain of less work
// gives way.
func TestTwoFoundingsMeet(t *testing.T) {
	nodetest.Run(t, 10*time.Millisecond, crashSpec(16, 1), 5, func(s *swarm) {
		s.Pace(50 * time.Millisecond)
		large, small := s.Peers[:3], s.Peers[3:]
		s.Cut(true, large, small)
		s.Start(s.Peers...)
		s.Reach(3, s.Peers...)
		s.Cut(false, large, small)
		s.Finish(5*time.Minute, s.Peers...)
		switched := 0
		for _, p := range s.Peers {
			switched += len(p.Events("run.switched"))
		}
		if switched < len(small) || switched > len(large) {
			t.Errorf("%d peers gave their chain up: those of one side should", switched)
		}
	})
}

// Two peers that found alone at the same moment, each with work done.
func TestTwoLoneFoundersMeet(t *testing.T) {
	nodetest.Run(t, 10*time.Millisecond, crashSpec(16, 1), 2, func(s *swarm) {
		s.Pace(50 * time.Millisecond)
		a, b := s.Peers[:1], s.Peers[1:]
		s.Cut(true, a, b)
		s.Start(s.Peers...)
		s.Reach(3, s.Peers...)
		s.Cut(false, a, b)
		s.Finish(5*time.Minute, s.Peers...)
		if n := len(a[0].Events("run.switched")) + len(b[0].Events("run.switched")); n != 1 {
			t.Errorf("%d of 2 founders gave its chain up", n)
		}
	})
}
