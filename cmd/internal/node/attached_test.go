package node

import (
	"testing"

	"github.com/p2pdiloco/p2pdiloco"
)

// TestWhoseStepsAreKept: what a node had offered before it was killed may count in a later slot of
// mode async, with whatever discounts, and the steps that its ranks had kept would count once more.
func TestWhoseStepsAreKept(t *testing.T) {
	fresh, stale := []uint64{1000}, []uint64{1000, 500}
	for _, c := range []struct {
		mode, pace string
		discount   []uint64
		want       bool
	}{
		{p2pdiloco.ModeSync, p2pdiloco.PaceSteps, fresh, true},
		{p2pdiloco.ModeDelayed, p2pdiloco.PaceSteps, fresh, true},
		{p2pdiloco.ModeEager, p2pdiloco.PaceSteps, fresh, true},
		{p2pdiloco.ModeSync, p2pdiloco.PaceSteps, stale, false},
		{p2pdiloco.ModeSync, p2pdiloco.PaceDyLU, fresh, false},
		{p2pdiloco.ModeAsync, p2pdiloco.PaceSteps, fresh, false},
		{p2pdiloco.ModeStreaming, p2pdiloco.PaceSteps, fresh, false},
	} {
		if got := keepsSteps(p2pdiloco.Spec{Mode: c.mode, Pace: c.pace, Discount: c.discount}); got != c.want {
			t.Errorf("%+v: %t", c, got)
		}
	}
}
