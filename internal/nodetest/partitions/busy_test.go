package partitions

import (
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
)

// TestANewcomerLooksAroundBeforeItFounds: on a slow network, as on a busy machine, the bootstrap
// node answers, and what it knows of the run's peers comes later than the discovery window takes. A
// newcomer that founds then has a run of its own for good, beside one of the same name.
func TestANewcomerLooksAroundBeforeItFounds(t *testing.T) {
	t.Parallel()
	for _, latency := range []time.Duration{250 * time.Millisecond, 500 * time.Millisecond} {
		nodetest.RunNow(t, latency, nodetest.Spec(40, 1), 2, func(s *swarm) {
			s.Pace(300 * time.Millisecond)
			first, newcomer := s.Peers[0], s.Peers[1]
			s.Start(first)
			s.Reach(1, first)
			s.Start(newcomer)
			s.Until(2*time.Minute, "the newcomer has joined or founded", func() bool {
				return len(newcomer.Events("run.founded"))+len(newcomer.Events("run.joined")) > 0
			})
			if len(newcomer.Events("run.founded")) > 0 {
				t.Errorf("with %v to each peer a newcomer has founded a second run", latency)
			}
		})
	}
}
