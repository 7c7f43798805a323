package membership

import (
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// slowLink brings a peer so many records a second, one after the other, and drops what finds its
// queue full.
type slowLink struct {
	to         string
	rate, room int
	sent       int
	free       time.Duration
}

// queue says how long a record waits, or that there is no room for it.
func (s *slowLink) queue(now time.Duration) (wait time.Duration, fits bool) {
	s.sent++
	each := time.Second / time.Duration(s.rate)
	s.free = max(s.free, now)
	if wait = s.free - now; wait > time.Duration(s.room)*each {
		return 0, false
	}
	s.free += each
	return wait, true
}

// TestAJoinerOnASlowLinkAsksOnce: a newcomer whose link brings fewer records in Retry than one
// answer has gets all of them, with a ticket's pin and without one, and hardly any of them twice.
func TestAJoinerOnASlowLinkAsksOnce(t *testing.T) {
	for _, pinned := range []bool{true, false} {
		l := longLab(t, true)
		l.until(t, 300, l.peers...)
		tip := l.peers[0].m.chain.Height()
		if pinned {
			l.pins = map[string]slot.Root{"E": l.peers[0].m.chain.TipHash()}
		}
		l.slow = &slowLink{to: "E", rate: 60, room: 1024}
		e := l.add("E")
		l.connect()
		began := l.now
		if !l.run(time.Minute, func() bool { return e.m.member() }) {
			t.Errorf("pinned %v: it has not joined, %d records were sent for %d heights", pinned, l.slow.sent, tip)
		} else if took, due := l.now-began, 3*time.Duration(tip)*time.Second/60; took > due {
			t.Errorf("pinned %v: it has joined after %v, with %d records for %d heights", pinned, took,
				l.slow.sent, tip)
		}
	}
}
