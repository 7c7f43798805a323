package p2pdiloco

import (
	"context"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/sim"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// noise is a stub whose pseudo-gradients cannot be compressed.
type noise struct{ *stub }

func (t noise) Train(ctx context.Context, task Task) (Stats, error) {
	stats, err := t.stub.Train(ctx, task)
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.mu.x {
		t.mu.x[i] += t.rand.Float32() - .5
	}
	return stats, err
}

// estimateErrs is the factor by which slots may take longer or shorter than expected.
const estimateErrs = 1.5

// TestSlotsTakeAsLongAsExpected runs four peers on links of different speeds. Once these are measured, slots take what was expected of them, at
// every peer, and the status says both.
func TestSlotsTakeAsLongAsExpected(t *testing.T) {
	const elements, slots, measured = 1 << 20, 5, 3
	spec := simSpec(slots, 4)
	inSimOver(t, sim.NewMemory, 10*time.Millisecond, spec, 0, func(s *swarm) {
		s.net.Rate = 80_000_000
		for i, up := range []int64{4_000_000, 4_000_000, 4_000_000, 2_000_000} {
			p := s.add()
			p.trainer = noise{newStub(10*time.Millisecond, elements, uint64(i))}
			p.tune = func(c *p2p.Config) { c.MaxUpload = up }
		}
		s.start(s.peers...)
		s.reach(slots-1, s.peers...)
		status := s.peers[0].node.Load().Status().Exchange
		s.finish(10*time.Minute, s.peers...)
		for _, p := range s.peers {
			expected, began, took := make(map[uint64]float64), make(map[uint64]time.Time), make(map[uint64]float64)
			for _, e := range p.events("slot.planned") {
				at := e.Fields["slot"].(uint64)
				expected[at], _ = e.Fields["expected_seconds"].(float64)
				if began[at].IsZero() {
					began[at] = e.Time
				}
			}
			for _, e := range p.events("slot.committed") {
				at := e.Fields["slot"].(uint64)
				took[at] = e.Time.Sub(began[at]).Seconds()
			}
			for at := uint64(measured); at <= slots; at++ {
				if e := expected[at]; took[at] > e*estimateErrs || took[at] < e/estimateErrs {
					t.Errorf("host %d: slot %d took %.2f s, %.2f s were expected", p.host, at, took[at], e)
				}
			}
			if last := status.Last; p.host == s.peers[0].host && (last == nil || last.Slot < slots-1 || last.Expected.Seconds() != expected[last.Slot] || last.Took.Seconds() != took[last.Slot]) {
				t.Errorf("the status says %+v; slots took %v, expected were %v", last, took, expected)
			}
		}
	})
}
