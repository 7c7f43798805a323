package hostile

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/node/edge"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
)

// With trust crash nobody looks whether an owner's values are right. But what has no values would
// end the run for good: another member reduces that part, and the slots go on.
func TestAnOwnerOfNoValuesStopsNothing(t *testing.T) {
	spec := nodetest.Spec(8, 4)
	spec.Trust, spec.Codec = p2pdiloco.TrustCrash, "f32"
	nodetest.Run(t, spec, 4, func(s *nodetest.Swarm) {
		liar := s.Peers[2]
		liar.Hooks = func(h *edge.Hooks) {
			h.Reduced = func(_ uint64, _ int, x []float32) { x[len(x)-1] = float32(math.NaN()) }
		}
		s.Start(s.Peers...)
		s.Finish(5*time.Minute, s.But(liar)...)
		for _, p := range s.But(liar) {
			if got := s.Contributions(p); len(got) != int(spec.LastSlot()) {
				t.Errorf("host %d contributed to slots %v alone", p.Host, got)
			}
			if slices.ContainsFunc(p.Trainer.(*nodetest.Bowl).X, func(v float32) bool { return v != v }) {
				t.Errorf("host %d: the model is not finite", p.Host)
			}
		}
	})
}
