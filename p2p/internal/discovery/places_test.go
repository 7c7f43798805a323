package discovery

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/sim"
)

// Peers whose places change are found under the new ones at once, and find who is there.
func TestPlacesChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sim.New(t, 4, 10*time.Millisecond)
		_ = simulated(t, s, 0, lan())
		cfg := lan()
		cfg.Bootstrap = []string{s.Addr(0)}
		a, b, c := simulated(t, s, 1, cfg), simulated(t, s, 2, cfg), simulated(t, s, 3, cfg)
		places := NewPlaces("one")
		a.Advertise(t.Context(), places)
		found, _ := a.Find(t.Context(), places)
		time.Sleep(10 * time.Minute) // searches and announcements are rare by now
		b.advertise(t, "two")
		c.advertise(t, "one")
		fromTwo := b.find(t.Context(), "two")
		collect(t, found, 1, 2*cfg.FindEvery)
		time.Sleep(10 * time.Minute)
		select {
		case p := <-found:
			t.Fatalf("found at another place: %s", p.Short())
		default:
		}
		places.Set("two", "one")
		if got := collect(t, found, 1, 2*time.Second); got[0] != b.id() {
			t.Errorf("found %s", got[0].Short())
		}
		if got := collect(t, fromTwo, 1, 2*cfg.FindEvery); got[0] != a.id() {
			t.Errorf("found by %s", got[0].Short())
		}
	})
}
