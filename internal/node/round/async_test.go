package round

import (
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership"
	"github.com/p2pdiloco/p2pdiloco/outeropt"
	"github.com/p2pdiloco/p2pdiloco/spec"
)

// The newer contribution waits while the one before stands for a later slot: in the overlapped
// modes, and on the same branch.
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
		{"in mode delayed", spec.ModeDelayed, root, 3, false},
		{"in mode eager", spec.ModeEager, root, 3, false},
		{"in mode sync", spec.ModeSync, root, 3, true},
	} {
		n := ModeOf((spec.Spec{Name: "x", Mode: c.mode}).Settled())
		if got := n.over(standing, offered{switches: c.moves, root: c.root}); got != c.over {
			t.Errorf("%s: over %v", c.name, got)
		}
	}
}

// With delayed_nesterov a peer's part of the step is an N-th of the rate times its own gradient,
// however many contribute: the momentum is the anchor's alone.
func TestThePartOfDelayedNesterovHasNoMomentum(t *testing.T) {
	cfg := outeropt.Config{Name: outeropt.DelayedNesterov, LR: 1, Momentum: 0.5, Every: 4}
	e := &eagerStep{cfg: cfg}
	for at, peers := range []int{1, 1, 3, 3, 2} {
		start := []float32{1}
		e.step(start, []float32{0.5}, &inFlight{slot: uint64(at) + 1, peers: peers})
		if start[0] != 1-0.5/4 {
			t.Errorf("slot %d of %d peers: the start is %v", at+1, peers, start[0])
		}
	}
}
