package replica

import (
	"testing"
	"time"
)

// How long a draft's bytes are waited for follows from the pace of the reduction. What a quorum has
// on disk can be had elsewhere, so it is waited for less long, however long the reduction took.
func TestReductionLimit(t *testing.T) {
	o := &outcomes{stall: 4 * time.Second}
	for _, c := range []struct{ ran, draft, certified time.Duration }{
		{0, 32 * time.Second, 4 * time.Second},
		{time.Minute, 32*time.Second + 4*time.Minute, 19 * time.Second},
	} {
		if got := o.reductionLimit(outcome{}, c.ran); got != c.draft {
			t.Errorf("a draft after %v: %v, want %v", c.ran, got, c.draft)
		}
		if got := o.reductionLimit(outcome{certified: true}, c.ran); got != c.certified {
			t.Errorf("a certified outcome after %v: %v, want %v", c.ran, got, c.certified)
		}
	}
}
