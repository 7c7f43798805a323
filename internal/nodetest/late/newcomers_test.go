package late

import (
	"context"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
)

// Peers that come to an open run without training are listed two a slot, where one member trains,
// not all at once.
func TestNewcomersOfAnOpenRun(t *testing.T) {
	nodetest.Once(t, 1000, 1, func(s *swarm) {
		s.Pace(300 * time.Millisecond)
		s.Start(s.Peers...)
		s.Reach(1, s.Peers...)
		for range 5 {
			idle := s.Add()
			idle.Main = func(ctx context.Context, _ *p2pdiloco.Node) error { <-ctx.Done(); return nil }
			s.Start(idle)
		}
		founder := s.Peers[0].Node.Load()
		most, base, at := 0, 1, uint64(1)
		for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
			v := founder.Status()
			if n := len(v.Members); v.Slot == at {
				most = max(most, n-base)
			} else {
				at, base = v.Slot, n
			}
		}
		if most > 2 {
			t.Errorf("%d newcomers were listed in a slot", most)
		}
		if n := len(founder.Status().Members); n != 6 {
			t.Errorf("%d members in the end", n)
		}
	})
}
