package discovery

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/sim"
)

// Peers that have found each other, and are connected, search the DHT seldom. One that is missed
// has them search as often as before.
func TestACalmPeerSearchesSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sim.New(t, 4, 10*time.Millisecond)
		for i := range s.Hosts {
			n := simulated(t, s, i, lan())
			n.advertise(t, "run")
			n.find(t.Context(), "run")
			for j := range i {
				s.Connect(i, j)
			}
		}
		rate := func() float64 {
			const span = 5 * time.Minute
			before := s.Sent(0)
			time.Sleep(span)
			return float64(s.Sent(0)-before) / span.Seconds()
		}
		time.Sleep(5 * time.Minute)
		calm := rate()
		s.Isolate(3)
		time.Sleep(time.Minute)
		missing := rate()
		if t.Logf("%.0f B/s, and %.0f B/s while one is missed", calm, missing); missing < 3*calm {
			t.Errorf("%.0f B/s while all are connected, %.0f B/s while one is missed", calm, missing)
		}
	})
}
