package spec

import (
	"testing"
)

// A round takes a part where all do as many steps, and a piece of one where each does as many as it
// can: whatever the mode, none is trained twice over or left behind.
func TestPartsFollowThePace(t *testing.T) {
	for _, c := range []struct {
		spec        Spec
		rules, part uint64
		ahead       uint64
	}{
		{Spec{}, 0, 40, 0},
		{Spec{Mode: ModeSync, Pace: PaceDyLU}, 640, 640, 0},
		{Spec{Mode: ModeDelayed, Pace: PaceDyLU}, 640, 640, 1},
		{Spec{Mode: ModeAsync}, 640, 640, 1},
		{Spec{Mode: ModeAsync, Pace: PaceSteps}, 0, 40, 1},
		{Spec{Mode: ModeStreaming, Fragments: 3}, 0, 14, 1},
	} {
		c.spec.Name, c.spec.InnerSteps = "x", 40
		s := c.spec.Settled()
		if ahead, rules := s.DataAssignment(); ahead != c.ahead || rules != c.rules || s.PartSteps() != c.part {
			t.Errorf("mode %s, pace %s: %d slots ahead, %d steps a part for the ledger, %d for a trainer", s.Mode,
				s.Pace, ahead, rules, s.PartSteps())
		}
	}
}
