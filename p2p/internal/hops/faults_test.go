package hops

import (
	"fmt"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

// A forwarder that fails whenever it is asked first is asked ever more seldom: with a term that
// stays the same each slot of a minute would wait for it. One that failed long ago begins anew, and
// many streams that fail at once are one fault.
func TestWhoFailsAgainIsAskedSeldom(t *testing.T) {
	f, now := newFaults(), time.Unix(0, 0)
	failed := 0
	for end := now.Add(10 * time.Hour); now.Before(end); now = now.Add(time.Second) {
		if !f.has("bad", now) {
			failed++
			for range 5 {
				f.note("bad", now)
			}
		}
	}
	if failed < 16 || failed > 30 {
		t.Errorf("in ten hours it is asked first %d times", failed)
	}
	now = now.Add(24 * time.Hour)
	if f.note("bad", now); !f.has("bad", now.Add(faultTerm-1)) || f.has("bad", now.Add(faultTerm)) {
		t.Error("one fault, long after others, does not count for a term")
	}
	for i := range 3 * maxFaults {
		f.note(peer.ID(fmt.Sprint(i)), now)
	}
	if n := len(f.mu.of); n > maxFaults {
		t.Errorf("%d are remembered", n)
	}
}
