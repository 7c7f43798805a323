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

// With delayed_nesterov a peer's part of the step has the momentum at the slots at which the
// anchor's has it, whatever slots the peer has offered for. It went by the number of its own steps,
// which is another one after a restart or a slot without an offer.
func TestThePrivateMomentumComesWithTheAnchors(t *testing.T) {
	cfg := outeropt.Config{Name: outeropt.DelayedNesterov, LR: 1, Momentum: 0.5, Every: 2}
	e := &eagerStep{cfg: cfg}
	outer, err := outeropt.New(cfg, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []uint64{2, 3, 5, 6} {
		start, anchor := []float32{1}, []float32{1}
		e.step(start, []float32{0.25}, &inFlight{slot: at, peers: 1})
		outer.Step(anchor, []float32{0.25}, outeropt.At{Step: at})
		if start[0] != anchor[0] {
			t.Errorf("slot %d: %v alone, and the anchor is %v", at, start[0], anchor[0])
		}
	}
}
