package round

import (
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership"
	"github.com/p2pdiloco/p2pdiloco/spec"
)

// The newer contribution waits while the one before stands for a later slot: in mode async, and on
// the same branch.
func TestWhatStandsIsWaitedFor(t *testing.T) {
	root, other := slot.Root{1}, slot.Root{2}
	standing := membership.View{Synced: true, ChainSwitches: 3, AppliedSlot: 5, OwnOffer: &slot.Offer{Root: root}}
	for _, c := range []struct {
		name, mode string
		root       slot.Root
		moves      uint64
		over       bool
	}{
		{"it stands", spec.ModeAsync, root, 3, false},
		{"another stands", spec.ModeAsync, other, 3, true},
		{"on another branch", spec.ModeAsync, root, 2, true},
		{"in mode delayed", spec.ModeDelayed, root, 3, true},
	} {
		n := ModeOf((spec.Spec{Name: "x", Mode: c.mode}).Settled())
		if got := n.over(standing, offered{switches: c.moves, root: c.root}); got != c.over {
			t.Errorf("%s: over %v", c.name, got)
		}
	}
}
