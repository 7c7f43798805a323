package edge

import (
	"sync"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// A message for many peers is gossiped once, and once more for each time that it is sent again: the
// ledger repeats what was not answered with the same bytes.
func TestRepeatedMessagesAreGossipedAgain(t *testing.T) {
	var f fallback
	start := time.Unix(0, 0)
	for i, step := range []struct {
		after   time.Duration // from the start
		to      slot.PeerID
		message string
		due     bool
	}{
		{0, "a", "have", true},
		{0, "b", "have", false},
		{0, "a", "have", false}, // it waited in the queue with the first one
		{5 * time.Second, "c", "have", false},
		{5 * time.Second, "a", "have", true},
		{5 * time.Second, "b", "have", false},
		{5*time.Second + fallbackPause, "b", "have", true},
		{6 * time.Second, "b", "vote", true},
		{6 * time.Second, "b", "have", true},
	} {
		if due := f.due(step.to, []byte(step.message), start.Add(step.after)); due != step.due {
			t.Errorf("step %d: %q for %s after %v is due: %v", i, step.message, step.to, step.after, due)
		}
	}
}

// What is sent and what could not be sent fall back at the same time (with -race).
func TestTwoFallBackAtOnce(t *testing.T) {
	var f fallback
	var all sync.WaitGroup
	for _, to := range []slot.PeerID{"a", "b"} {
		all.Go(func() {
			for i := range 1000 {
				f.due(to, []byte{byte(i)}, time.Now())
			}
		})
	}
	all.Wait()
}
