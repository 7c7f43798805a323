package spec

import (
	"slices"
	"testing"
	"time"
)

func TestPaceSettings(t *testing.T) {
	s := Spec{Name: "x", Mode: ModeAsync}.Settled()
	if s.Pace != PaceDyLU || s.Outer != "sgd" || s.Momentum != "0" ||
		!slices.Equal(s.Discount, []uint64{1000, 500, 333, 250}) || s.Validate() != nil {
		t.Errorf("mode async settles as %+v", s)
	}
	if s := (Spec{Name: "x", Mode: ModeAsync, Outer: "delayed_nesterov"}).Settled(); s.Momentum != "0.6" ||
		s.DNEvery != 2 {
		t.Errorf("delayed Nesterov in mode async settles as %+v", s)
	}
	if s := (Spec{
		Name: "x", Mode: ModeAsync, Outer: "nesterov", Pace: PaceSteps,
		Discount: []uint64{1000},
	}).Settled(); s.Outer != "nesterov" || s.Pace != PaceSteps || len(s.Discount) != 1 {
		t.Errorf("what was given did not stay: %+v", s)
	}
	for _, bad := range []Spec{
		{Pace: PaceDeadline},
		{Pace: PaceDeadline, RoundTime: "0"},
		{Pace: PaceDyLU, RoundTime: "3"},
		{Pace: "fast"},
		{RoundTime: "x"},
		{Mode: ModeAsync, Fragments: 2},
		{Pace: PaceDyLU, Fragments: 2},
	} {
		if bad.Name = "x"; bad.Validate() == nil {
			t.Errorf("%+v is let pass", bad)
		}
	}
	if s := (Spec{Name: "x", Pace: PaceDeadline, RoundTime: "1.5"}).Settled(); s.Validate() != nil ||
		s.RoundDuration() != 1500*time.Millisecond {
		t.Errorf("%v: %v", s.RoundDuration(), s.Validate())
	}
}

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
		{Spec{Mode: ModeDelayed, Pace: PaceDeadline, RoundTime: "2"}, 640, 640, 1},
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
