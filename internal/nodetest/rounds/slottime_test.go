package rounds

import (
	"context"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
	"github.com/p2pdiloco/p2pdiloco/internal/sim"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// noise is a stub whose pseudo-gradients cannot be compressed.
type noise struct{ *nodetest.Stub }

func (t noise) Train(ctx context.Context, task p2pdiloco.Task) (p2pdiloco.Stats, error) {
	stats, err := t.Stub.Train(ctx, task)
	t.Mu.Lock()
	defer t.Mu.Unlock()
	for i := range t.Mu.X {
		t.Mu.X[i] += t.Rand.Float32() - .5
	}
	return stats, err
}

// estimateErrs is the factor by which slots may take longer or shorter than expected.
const estimateErrs = 1.5

// TestSlotsTakeAsLongAsExpected runs four peers on links of different speeds. Once these are
// measured, slots take what was expected of them, at every peer, and the status says both.
func TestSlotsTakeAsLongAsExpected(t *testing.T) {
	const elements, slots, measured = 1 << 20, 5, 3
	spec := nodetest.Spec(slots, 4)
	nodetest.RunOver(t, sim.NewMemory, 10*time.Millisecond, spec, 0, func(s *nodetest.Swarm) {
		s.Net.Rate = 80_000_000
		for i, up := range []int64{4_000_000, 4_000_000, 4_000_000, 2_000_000} {
			p := s.Add()
			p.Trainer = noise{nodetest.NewStub(10*time.Millisecond, elements, uint64(i))}
			p.TuneNetwork = func(c *p2p.Config) { c.MaxUpload = up }
		}
		s.Start(s.Peers...)
		s.Reach(slots-1, s.Peers...)
		status := s.Peers[0].Node.Load().Status().Exchange
		s.Finish(10*time.Minute, s.Peers...)
		for _, p := range s.Peers {
			expected, began, took := make(map[uint64]float64), make(map[uint64]time.Time), make(map[uint64]float64)
			for _, e := range p.Events("slot.planned") {
				at := e.Fields["slot"].(uint64)
				expected[at], _ = e.Fields["expected_seconds"].(float64)
				if began[at].IsZero() {
					began[at] = e.Time
				}
			}
			for _, e := range p.Events("slot.committed") {
				at := e.Fields["slot"].(uint64)
				took[at] = e.Time.Sub(began[at]).Seconds()
			}
			for at := uint64(measured); at <= slots; at++ {
				if e := expected[at]; took[at] > e*estimateErrs || took[at] < e/estimateErrs {
					t.Errorf("host %d: slot %d took %.2f s, %.2f s were expected", p.Host, at, took[at], e)
				}
			}
			if last := status.Last; p.Host == s.Peers[0].Host &&
				(last == nil || last.Slot < slots-1 || last.Expected.Seconds() != expected[last.Slot] ||
					last.Took.Seconds() != took[last.Slot]) {
				t.Errorf("the status says %+v; slots took %v, expected were %v", last, took, expected)
			}
		}
	})
}
