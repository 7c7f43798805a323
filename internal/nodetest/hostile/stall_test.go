package hostile

import (
	"context"
	"testing"
	"time"

	lab "github.com/p2pdiloco/p2pdiloco/internal/lab/hostile"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
	"github.com/p2pdiloco/p2pdiloco/internal/sim"
	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
)

// TestWhoStallsCostsFewSlots: one of four leads in vain for as long as it may, in slots of ten
// seconds. The others get at least nine in ten of the slots that they get without it.
func TestWhoStallsCostsFewSlots(t *testing.T) {
	slots := testutil.Choose[uint64](30, 30, 300)
	spec := nodetest.Spec(1<<20, 4)
	spec.InnerSteps = 4
	nodetest.RunOver(t, sim.NewMemory, spec, 4, func(s *nodetest.Swarm) {
		ctx, cancel := context.WithCancel(s.T.Context())
		defer cancel()
		k, _ := lab.Find("stall")
		folder, foe := t.TempDir(), s.Peers[3]
		turn(ctx, foe, k, folder)
		s.Pace(2500 * time.Millisecond)
		s.Start(s.Peers...)
		s.Reach(calmSlots, s.Peers...)
		began := time.Now()
		s.Reach(2*calmSlots, s.Peers...)
		calm := time.Since(began) / calmSlots
		if err := lab.Begin(folder); err != nil {
			t.Fatal(err)
		}
		began = time.Now()
		s.Until(time.Duration(slots)*time.Minute, "slots", func() bool {
			return s.Peers[0].Applied() >= 2*calmSlots+slots
		})
		took := time.Since(began)
		share := float64(calm) * float64(slots) / float64(took)
		t.Logf("a slot takes %v; %d slots took %v: %.1f%%", calm, slots, took, 100*share)
		out := 0
		for _, e := range s.Peers[0].Events("peer.left") {
			t.Log(e.Fields)
			out++
		}
		if share < .9 || out == 0 {
			t.Errorf("%.1f%% of the slots, and it was put out %d times", 100*share, out)
		}
	})
}
