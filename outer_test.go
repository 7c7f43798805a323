package p2pdiloco

import (
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/outeropt"
)

// Who comes late, and who restarts from a checkpoint and the slots since, does the same outer steps as the others: how many there have
// been follows from the slot, and what else a step depends on is in the state.
func TestOuterOptimizersOverRestarts(t *testing.T) {
	for _, outer := range outeropt.Names() {
		t.Run(outer, func(t *testing.T) {
			spec := simSpec(12, 2)
			spec.Outer, spec.DNEvery = outer, 3
			inSim(t, 10*time.Millisecond, spec, 3, func(s *swarm) {
				s.start(s.peers[:2]...)
				s.reach(2, s.peers[:2]...)
				s.start(s.peers[2])
				s.until(time.Minute, "synced", func() bool { return s.peers[2].had("state.synced") })
				s.stop(s.peers[1])
				s.start(s.peers[1])
				s.finish(3*time.Minute, s.peers...)
			})
		})
	}
}
