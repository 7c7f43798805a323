package p2pdiloco

import (
	"testing"
	"time"
)

// A draft's bytes are waited for by the pace of the reduction; what a quorum has on disk can be had elsewhere, and is waited for less long
// than a draft's, however long the reduction took.
func TestPatience(t *testing.T) {
	w := &worker{stall: 4 * time.Second}
	for _, c := range []struct{ ran, draft, certified time.Duration }{
		{0, 32 * time.Second, 4 * time.Second},
		{time.Minute, 32*time.Second + 4*time.Minute, 19 * time.Second},
	} {
		if got := w.patience(outcomeOf{}, c.ran); got != c.draft {
			t.Errorf("a draft after %v: %v, want %v", c.ran, got, c.draft)
		}
		if got := w.patience(outcomeOf{certified: true}, c.ran); got != c.certified {
			t.Errorf("a certified outcome after %v: %v, want %v", c.ran, got, c.certified)
		}
	}
}
