package liveness

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	_ "github.com/p2pdiloco/p2pdiloco/internal/onecpu" // see there
)

// TestUnsteady: a connection that was silent for too long, or broke, twice in a while is not
// trusted for some time. One that was so once, is a bit late, or is as all others are, is trusted.
func TestUnsteady(t *testing.T) {
	const pulse = 4 * time.Second
	pulse1 := appendPulse(nil, 1)
	all := []peer.ID{"a", "b", "c", "d"}
	among := func() []peer.ID { return all }
	silent := func(s *Signs, id peer.ID, d time.Duration) {
		s.Pulsed(id, pulse1)
		time.Sleep(d)
		s.Saw(id, true)
	}
	synctest.Test(t, func(t *testing.T) {
		s := NewSigns(pulse)
		for range 10 {
			silent(s, "a", pulse+leastGap)
		}
		if s.Unsteady("a", among) {
			t.Error("a peer that is a bit late at times is said to come and go")
		}
		if silent(s, "a", 2*pulse); s.Unsteady("a", among) {
			t.Error("one interruption is enough")
		}
		if s.Broke("a"); !s.Unsteady("a", among) || s.Unsteady("b", among) {
			t.Error("a peer that was interrupted twice is trusted, or another one is not")
		}
		time.Sleep(unsteadyTerm - time.Second)
		if !s.Unsteady("a", among) {
			t.Error("trusted too soon")
		}
		if time.Sleep(time.Second); s.Unsteady("a", among) {
			t.Error("not trusted after a while")
		}
		time.Sleep(unsteadyWithin)
		if s.Broke("a"); s.Unsteady("a", among) {
			t.Error("interruptions that lie far apart count together")
		}
		for range 2 { // its process ended, and another one came
			s.Broke("a")
			s.Pulsed("a", appendPulse(nil, 2))
			s.Broke("a")
			s.Pulsed("a", pulse1)
		}
		if s.Unsteady("a", among) {
			t.Error("a peer that was restarted is said to come and go")
		}
		for _, id := range []peer.ID{"a", "b", "c"} {
			s.Broke(id)
			s.Broke(id)
		}
		if s.Unsteady("a", among) {
			t.Error("three of four peers are said to come and go: it is this one")
		}
	})
	synctest.Test(t, func(t *testing.T) {
		s := NewSigns(pulse)
		for range 3 {
			s.Pulsed("a", pulse1)
			time.Sleep(10 * pulse)
			s.forgive(time.Now()) // this process was stopped
			s.Pulsed("a", pulse1)
		}
		if s.Unsteady("a", among) {
			t.Error("the time that this process stood still is held against a peer")
		}
	})
}
