package hostile

import (
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/node/testhooks"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
)

// An owner that signs another outcome than that of the contributions is convicted by whoever checks
// a sample, before the outcome is agreed: it loses its place, and its values never reach the model.
func TestAnOwnerThatLies(t *testing.T) {
	for name, lie := range map[string]func(slot uint64, frame int, values []float32){
		"times -10": func(_ uint64, _ int, x []float32) { scale(x, -10) },
		"times -1":  func(_ uint64, _ int, x []float32) { scale(x, -1) },
		"zeros":     func(_ uint64, _ int, x []float32) { clear(x) },
		"one frame": func(_ uint64, frame int, x []float32) {
			if frame == 2 {
				scale(x, 30)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			spec := nodetest.Spec(12, 5)
			nodetest.Run(t, 10*time.Millisecond, spec, 5, func(s *nodetest.Swarm) {
				liar := s.Peers[2]
				liar.Hooks = func(h *testhooks.Hooks) {
					h.Reduced = func(slot uint64, frame int, x []float32) {
						if slot > 3 {
							lie(slot, frame, x)
						}
					}
				}
				s.Start(s.Peers...)
				honest := s.But(liar)
				s.Finish(5*time.Minute, honest...)
				for _, p := range honest {
					if name != "one frame" && !p.Had("peer.evicted") {
						t.Errorf("host %d has not heard of the proof", p.Host)
					}
					if len(p.Events("peer.evicted")) > 1 {
						t.Errorf("host %d evicted %v", p.Host, p.Events("peer.evicted"))
					}
				}
			})
		})
	}
}

func scale(x []float32, by float32) {
	for i := range x {
		x[i] *= by
	}
}
