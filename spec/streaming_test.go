package spec

import (
	"slices"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// What is not given gets a value that fits the rest.
func TestDefaultsOfModeStreaming(t *testing.T) {
	for _, c := range []struct {
		given                  Spec
		delay, alpha, momentum string
	}{
		{Spec{}, "0", "0", "0.9"},
		{Spec{Mode: ModeStreaming, InnerSteps: 500}, "50", "0", "0.9"},
		{Spec{Mode: ModeStreaming, InnerSteps: 500, Fragments: 16}, "31", "0", "0.9"},
		{Spec{Mode: ModeStreaming, InnerSteps: 9, Fragments: 4, FragmentAlpha: "0.5"}, "1", "0.5", "0.9"},
		{Spec{Mode: ModeStreaming, InnerSteps: 500, Fragments: 4, FragmentDelay: "0", Outer: "sgd"}, "0", "0", "0"},
		{Spec{Mode: ModeStreaming, InnerSteps: 1}, "0", "0", "0.9"},
		{Spec{Mode: ModeStreaming, InnerSteps: 4, Fragments: 4}, "1", "0", "0.9"},
	} {
		c.given.Name, c.given.Layout = "x", testSpec().Layout
		s := c.given.Settled()
		if s.FragmentDelay != c.delay || s.FragmentAlpha != c.alpha || s.Momentum != c.momentum || s.Validate() != nil {
			t.Errorf("%+v: tau %s, alpha %s, momentum %s, %v", c.given, s.FragmentDelay, s.FragmentAlpha, s.Momentum,
				s.Validate())
		}
	}
}

// Each combination that makes no sense is refused by the name of the field to change, also where
// only some are given.
func TestFaultsOfModeStreaming(t *testing.T) {
	for _, c := range []struct {
		given Spec
		field string
	}{
		{Spec{Mode: ModeSync, Fragments: 2}, "fragments"},
		{Spec{Mode: ModeDelayed, FragmentDelay: "3"}, "fragment_delay"},
		{Spec{Mode: ModeEager, FragmentAlpha: "0.5"}, "fragment_alpha"},
		{Spec{Mode: ModeStreaming, Discount: []uint64{1000, 500}}, "discount"},
		{Spec{Mode: ModeStreaming, Fragments: 11, InnerSteps: 10}, "fragments"},
		{Spec{Mode: ModeStreaming, Fragments: 4, InnerSteps: 10, FragmentDelay: "3"}, "fragment_delay"},
		{Spec{Mode: ModeStreaming, Fragments: 1, InnerSteps: 10, FragmentDelay: "10"}, "fragment_delay"},
		{Spec{Mode: ModeStreaming, Pace: PaceDyLU}, "pace"},
		{Spec{Mode: ModeStreaming, Fragments: 2, Pace: PaceDeadline, RoundTime: "1"}, "pace"},
		{Spec{FragmentDelay: "03"}, "fragment_delay"},
		{Spec{FragmentDelay: "-1"}, "fragment_delay"},
		{Spec{FragmentDelay: "1.5"}, "fragment_delay"},
		{Spec{FragmentAlpha: "1"}, "fragment_alpha"},
		{Spec{FragmentAlpha: "half"}, "fragment_alpha"},
	} {
		c.given.Name = "x"
		if err := c.given.Validate(); err == nil || !strings.Contains(err.Error(), "run spec: "+c.field+" = ") {
			t.Errorf("%+v: %v", c.given, err)
		}
	}
	for _, s := range []Spec{
		{Fragments: 4, FragmentDelay: "2"}, // the mode is adopted
		{Mode: ModeStreaming, FragmentDelay: "100"},
		{Mode: ModeStreaming, Fragments: 4, InnerSteps: 10, FragmentDelay: "2"},
		{Mode: ModeSync, Fragments: 1, FragmentDelay: "0", FragmentAlpha: "0"},
	} {
		s.Name = "x"
		if err := s.Validate(); err != nil {
			t.Errorf("%+v: %v", s, err)
		}
	}
}

// The borders lie H/P steps apart, and a round has H.
func TestBorders(t *testing.T) {
	s := Spec{InnerSteps: 11, Fragments: 4}
	var got []int
	for slotNumber := uint64(1); slotNumber <= 8; slotNumber++ {
		got = append(got, s.Interval(slotNumber))
	}
	if want := []int{2, 3, 3, 3, 2, 3, 3, 3}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := (Spec{InnerSteps: 500, Fragments: 1}).Interval(7); got != 500 {
		t.Error(got)
	}
}

func TestSpecRefusesFragmentsThatCannotBe(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Spec)
		want   string
	}{
		"more than elements": {
			func(s *Spec) { s.Fragments, s.Layout = 4, trainer.Layout{{Name: "x", Shape: []uint64{3}}} },
			"more than the model's 3 elements",
		},
		"too many": {func(s *Spec) { s.Fragments = 257 }, "allowed: 1 to 256"},
		"stale": {
			func(s *Spec) { s.Fragments, s.Discount = 2, []uint64{1000, 500} },
			"the next slot takes another",
		},
		"order": {func(s *Spec) { s.FragmentOrder = "random" }, "allowed: strided, sequential"},
	} {
		s := testSpec()
		if c.change(&s); s.Validate() == nil || !strings.Contains(s.Validate().Error(), c.want) {
			t.Errorf("%s: %v", name, s.Validate())
		}
		if s = s.Settled(); s.Fragments > 0 {
			if _, err := Parse(s.Append(nil)); err == nil {
				t.Errorf("%s: a stranger's is accepted", name)
			}
		}
	}
	s := testSpec()
	s.Mode, s.Fragments, s.Rounds = ModeStreaming, 7, 5
	if s = s.Settled(); s.Validate() != nil || s.LastSlot() != 35 || s.FragmentOf(1) != 0 || s.FragmentOf(35) != 6 {
		t.Errorf("%v: last slot %d, fragments %d and %d", s.Validate(), s.LastSlot(), s.FragmentOf(1), s.FragmentOf(35))
	}
	var sizes []uint64
	for p, f := range s.Partition() {
		sizes = append(sizes, f.Elements())
		if f.Elements() != s.FragmentElements()[p] {
			t.Errorf("fragment %d has %d elements", p, f.Elements())
		}
	}
	if !slices.Equal(sizes, []uint64{430, 430, 430, 430, 430, 430, 430}) {
		t.Errorf("sizes %v", sizes)
	}
}
