package p2pdiloco

import (
	"context"
	"testing"
	"time"
)

// Whoever comes to an open run without training is listed two a slot, where one member trains, not all at once.
func TestNewcomersOfAnOpenRun(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(1000, 1), 1, func(s *swarm) {
		s.pace(time.Second)
		s.start(s.peers...)
		s.reach(1, s.peers...)
		for range 5 {
			idle := s.add()
			idle.drive = func(ctx context.Context, _ *Node) error { <-ctx.Done(); return nil }
			s.start(idle)
		}
		founder := s.peers[0].node.Load()
		most, base, at := 0, 1, uint64(1)
		for end := time.Now().Add(90 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
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
