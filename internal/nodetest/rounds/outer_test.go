package rounds

import (
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
	"github.com/p2pdiloco/p2pdiloco/outeropt"
)

// A peer that comes late, and one that restarts from a checkpoint and the slots since, do the same
// outer steps as the others: how many there have been follows from the slot, and what else a step
// depends on is in the state.
func TestOuterOptimizersOverRestarts(t *testing.T) {
	for _, outer := range outeropt.Names() {
		t.Run(outer, func(t *testing.T) {
			spec := nodetest.Spec(8, 2)
			spec.Outer, spec.DNEvery = outer, 3
			nodetest.Run(t, 10*time.Millisecond, spec, 3, func(s *nodetest.Swarm) {
				s.Start(s.Peers[:2]...)
				s.Reach(2, s.Peers[:2]...)
				s.Start(s.Peers[2])
				s.Until(time.Minute, "synced", func() bool { return s.Peers[2].Had("state.synced") })
				s.Stop(s.Peers[1])
				s.Start(s.Peers[1])
				s.Finish(3*time.Minute, s.Peers...)
			})
		})
	}
}
