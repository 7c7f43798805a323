package spec

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/outeropt"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// Validate reports every fault of the fields given at once, each as an *Error. A field that was not
// given is no fault, except the name.
func (s Spec) Validate() error { return s.check(true) }

// check is Validate. A spec that is not given here, but that of a run, may have what earlier
// releases allowed.
func (s Spec) check(given bool) error {
	var f faults
	f.add(s.Name == "", "name", `""`, "a run needs a name")
	for _, field := range table {
		if text := field.Text(s); text != "" && field.check != nil {
			why := field.check(text)
			f.add(why != "", field.Name, text, "%s", why)
		}
	}
	f.add(!discounts(s.Discount), "discount", fieldText(&s.Discount),
		"up to 64 per-mille values from 1000 down, never rising")
	f.add(s.MinPeers > s.StartPeers && s.StartPeers > 0, "min_peers", strconv.FormatUint(s.MinPeers, 10),
		"more than start_peers: the first slot could never close")
	s.checkPace(&f)
	s.checkTrust(&f, given)
	_, own := outeropt.Registered(s.Outer)
	f.add((s.Mode == ModeEager || s.Mode == ModeAsync && given) && (s.Outer == outeropt.Adam || own), "outer", s.Outer,
		"mode %s takes a peer's own part of the step ahead, and a step of %s cannot be divided into parts",
		s.Mode, s.Outer)
	f.add(s.Outer != "" && s.Kernel != "" && s.Kernel != kernelOf(s.Outer), "kernel", s.Kernel,
		"with outer %s it is %s", s.Outer, kernelOf(s.Outer))
	f.add(s.Mode == ModeStreaming && s.Outer == outeropt.DelayedNesterov, "outer", s.Outer,
		"it counts contributions to the whole vector, and in mode streaming each fragment has its own")
	s.checkCodecs(&f)
	s.checkFragments(&f)
	s.checkStreaming(&f)
	return errors.Join(f...)
}

// checkCodecs checks what goes with the codecs.
func (s Spec) checkCodecs(f *faults) {
	f.add(s.Frame > 0 && s.Frame < s.blockElements(), "frame", strconv.FormatUint(s.Frame, 10),
		"the codecs encode %d elements as a unit: a frame has at least as many", s.blockElements())
	out, _ := codec.NewOutcome(s.Codec, s.OutcomeCodec)
	if out.Values > 0 || s.sparse() {
		f.add(s.Schedule != "" && s.Schedule != "rotation", "schedule", s.Schedule,
			"with topk it is rotation: the sums that pass from peer to peer in a ring are not sparse")
	}
	f.add(s.sparse() && s.Aggregator != "" && s.Aggregator != "mean", "aggregator", s.Aggregator,
		"with codec topk it is mean, with clip: a peer did not send most values, and trimming those few that "+
			"were sent takes steps that are too long, or trims nobody")
}

// faults are what is wrong with a spec.
type faults []error

func (f *faults) add(wrong bool, field, here, why string, args ...any) {
	if wrong {
		*f = append(*f, &Error{Field: field, Here: here, Why: fmt.Sprintf(why, args...)})
	}
}

// discounts says whether a list may be the discounts of a run.
func discounts(list []uint64) bool {
	for i, d := range list {
		if d > 1000 || i > 0 && d > list[i-1] {
			return false
		}
	}
	return len(list) <= 64
}

// maxElectors bounds max_electors: so large electorates were modelled.
const maxElectors = 100

// maxFounders bounds the list of founders.
const maxFounders = 31

// byzantineFields have an effect with trust byzantine alone. With trust crash they would promise
// what nobody does.
var byzantineFields = []string{"max_electors", "newcomer_share", "audit_samples"}

// checkTrust checks the founders, and what goes with members that may lie.
func (s Spec) checkTrust(f *faults, given bool) {
	f.add(len(s.Founders) > maxFounders, "founders", strconv.Itoa(len(s.Founders)), "at most %d", maxFounders)
	for i, p := range s.Founders {
		f.add(len(p) < slot.MinPeerIDLen || len(p) > slot.MaxPeerIDLen, "founders", p.String(), "this is no peer ID")
		f.add(slices.Contains(s.Founders[:i], p), "founders", p.String(), "it is there twice")
	}
	for _, field := range table {
		text := field.Text(s)
		// a settled spec has the defaults
		idle := text == "" || text == "0" || text == field.Default || !given
		f.add(s.Trust == TrustCrash && slices.Contains(byzantineFields, field.Name) && !idle, field.Name, text,
			"it is for trust byzantine, and has no effect with trust crash: leave it out, or take trust byzantine")
	}
	f.add(s.Byzantine() && s.Schedule == "ring", "schedule", s.Schedule,
		"with trust byzantine rotation or auto: in a ring, sums pass through peers that could change them unseen")
}

// checkPace compares the fields of the pace with each other, as far as they are given.
func (s Spec) checkPace(f *faults) {
	f.add((s.Fragments > 1 || s.Mode == ModeStreaming) && s.Pace != PaceSteps && s.Pace != "", "pace", s.Pace,
		"with fragments, and in mode streaming, only steps: the borders of the slots are the same for all")
}

// checkFragments compares the number of fragments with the other fields.
func (s Spec) checkFragments(f *faults) {
	f.add(s.Fragments > 1 && len(s.Discount) > 1 && !s.Streams(), "discount", fieldText(&s.Discount),
		"with more than one fragment only 1000: the next slot takes another")
	d := s.Layout.Elements()
	f.add(len(s.Layout) > 0 && s.Fragments > d, "fragments", strconv.FormatUint(s.Fragments, 10),
		"more than the model's %d elements", d)
}

// checkStreaming compares the fields of mode streaming with each other, as far as they are given.
func (s Spec) checkStreaming(f *faults) {
	fragments := strconv.FormatUint(s.Fragments, 10)
	if s.Mode != "" && !s.Streams() {
		for _, v := range [][2]string{{"fragment_delay", s.FragmentDelay}, {"fragment_alpha", s.FragmentAlpha}} {
			f.add(v[1] != "" && v[1] != "0", v[0], v[1], "it is of mode streaming, and the mode is %s", s.Mode)
		}
		f.add(s.Fragments > 1, "fragments", fragments, "mode %s has one fragment: take mode streaming for more", s.Mode)
		return
	}
	f.add(s.Streams() && len(s.Discount) > 1, "discount", fieldText(&s.Discount),
		"in mode streaming only 1000: a late contribution belongs to a fragment whose turn is over")
	if s.InnerSteps == 0 || s.Fragments == 0 {
		return
	}
	if s.Fragments > s.InnerSteps {
		f.add(true, "fragments", fragments, "more than the %d inner steps of a round: each fragment needs one at least",
			s.InnerSteps)
		return
	}
	tau, err := strconv.ParseUint(s.FragmentDelay, 10, 64)
	f.add(err == nil && s.Streams() && tau > s.mostDelay(), "fragment_delay", s.FragmentDelay,
		"at most %d, with %d inner steps and %d fragments: a slot lands before the next one's border",
		s.mostDelay(), s.InnerSteps, s.Fragments)
}

// Error says that a peer's run spec and the fields given here differ, or that a field has a
// wrong value.
type Error struct {
	Field string // as in the TOML file
	Here  string // the value given here
	There string // the run's value; empty if the value here is wrong by itself
	// the peer that sent the run's spec; empty if the value here is wrong by itself, or the run's
	// spec is the one kept on disk
	Peer trainer.PeerID
	Why  string // what is wrong with the value by itself; empty if it differs from the run's
}

func (e *Error) Error() string {
	if e.Why != "" {
		return fmt.Sprintf("run spec: %s = %s: %s", e.Field, e.Here, e.Why)
	}
	by := ""
	if e.Peer != "" {
		by = " (says peer " + e.Peer.String() + ")"
	}
	advice := "leave the field out to adopt the run's value, or use another run name"
	switch e.Field {
	case "layout":
		advice = "give the trainer the run's model sizes, or use another run name"
	case "init":
		advice = "the run began with another model: leave the model file out to take part in it, or use another run " +
			"name"
	case "name":
		advice = "the directory belongs to that run: use another one"
	}
	return fmt.Sprintf("run spec: %s is %s here, but %s in the run%s: %s", e.Field, e.Here, e.There, by, advice)
}
