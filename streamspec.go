package p2pdiloco

import (
	"fmt"
	"strconv"
)

// Streams says whether a settled spec's mode is streaming.
func (s Spec) Streams() bool { return s.Mode == ModeStreaming }

// delay is tau of a settled spec: how many inner steps after its border a slot lands. 0 in other modes.
func (s Spec) delay() int {
	tau, _ := strconv.Atoi(s.FragmentDelay) // validated
	return tau
}

// interval is how many inner steps lie between the border before a slot's and its own: H in all over a round's slots.
func (s Spec) interval(slotNumber uint64) int {
	place := (slotNumber - 1) % s.Fragments
	return int((place+1)*s.InnerSteps/s.Fragments - place*s.InnerSteps/s.Fragments)
}

// defaultDelay is a tenth of the inner steps, as far as there is room for it. What is trained meanwhile is lost in that fragment.
func (s Spec) defaultDelay() uint64 { return min(max(1, s.InnerSteps/10), s.mostDelay()) }

// mostDelay is the most inner steps that a slot of mode streaming can take to land. With one fragment and the longest, nothing but what was
// just loaded would ever be contributed.
func (s Spec) mostDelay() uint64 {
	if s.Fragments == 1 {
		return s.InnerSteps - 1
	}
	return s.InnerSteps / max(s.Fragments, 1)
}

// checkStreaming compares the fields of mode streaming with each other, as far as they are given.
func (s Spec) checkStreaming() (errs []error) {
	fault := func(field, here, why string, args ...any) {
		errs = append(errs, &SpecError{Field: field, Here: here, Why: fmt.Sprintf(why, args...)})
	}
	if s.Mode != "" && !s.Streams() {
		if v := s.FragmentDelay; v != "" && v != "0" {
			fault("fragment_delay", v, "it is of mode streaming, and the mode is %s", s.Mode)
		}
		if v := s.FragmentAlpha; v != "" && v != "0" {
			fault("fragment_alpha", v, "it is of mode streaming, and the mode is %s", s.Mode)
		}
		if s.Fragments > 1 {
			fault("fragments", strconv.FormatUint(s.Fragments, 10), "mode %s has one fragment: take mode streaming for more", s.Mode)
		}
		return errs
	}
	if s.Streams() && len(s.Discount) > 1 {
		fault("discount", fieldText(&s.Discount), "in mode streaming only 1000: what comes late belongs to a fragment whose turn is over")
	}
	if s.InnerSteps == 0 || s.Fragments == 0 {
		return errs
	}
	if s.Fragments > s.InnerSteps {
		fault("fragments", strconv.FormatUint(s.Fragments, 10), "more than the %d inner steps of a round: each fragment needs one at least", s.InnerSteps)
	} else if tau, err := strconv.ParseUint(s.FragmentDelay, 10, 64); err == nil && s.Streams() && tau > s.mostDelay() {
		fault("fragment_delay", s.FragmentDelay, "at most %d, with %d inner steps and %d fragments: a slot lands before the next one's border", s.mostDelay(), s.InnerSteps, s.Fragments)
	}
	return errs
}
