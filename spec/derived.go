package spec

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/outeropt"
)

// Streams says whether the mode is streaming.
func (s Spec) Streams() bool { return s.Mode == ModeStreaming }

// Byzantine says whether the run is to withstand members that lie.
func (s Spec) Byzantine() bool { return s.Trust == TrustByzantine }

// WeightRatio is MaxWeightRatio as a number; 0: no bound.
func (s Spec) WeightRatio() uint64 {
	n, _ := strconv.ParseUint(s.MaxWeightRatio, 10, 64) // validated
	return n
}

// Samples is AuditSamples as a number; math.MaxInt: all.
func (s Spec) Samples() int {
	if s.AuditSamples == AuditAll {
		return math.MaxInt
	}
	n, _ := strconv.Atoi(s.AuditSamples) // validated
	return n
}

// Overlaps says whether the mode is an overlapped one.
func (s Spec) Overlaps() bool {
	return slices.Contains([]string{ModeDelayed, ModeEager, ModeAsync}, s.Mode)
}

// OuterConfig is the outer optimizer.
func (s Spec) OuterConfig() outeropt.Config {
	return outeropt.Config{
		Name: s.Outer, LR: number(s.OuterLR), Momentum: number(s.Momentum),
		Beta2: number(s.Beta2), Every: s.DNEvery,
	}
}

// MaxStaleness is how many slots the base of an offer may lie behind.
func (s Spec) MaxStaleness() uint64 { return uint64(len(s.Discount)) - 1 }

// LastSlot is the slot that the run ends with: in each round every fragment has one.
func (s Spec) LastSlot() uint64 { return s.Rounds * max(s.Fragments, 1) }

// FragmentOf is the fragment that a slot updates. Slots are counted from 1, and take the fragments
// in turn.
func (s Spec) FragmentOf(slotNumber uint64) int {
	return int(slot.FragmentOf(slotNumber, max(s.Fragments, 1)))
}

// Partition divides the vector into its fragments. It takes a while with many tensors: call it
// once.
func (s Spec) Partition() []slot.Fragment {
	return slot.Fragments(s.Layout, s.Fragments, s.FragmentOrder == OrderStrided)
}

// FragmentElements are the numbers of elements of the fragments.
func (s Spec) FragmentElements() []uint64 {
	return slot.FragmentElements(s.Layout.Elements(), s.Fragments)
}

// Delay is tau: how many inner steps after its border a slot lands. It is 0 in modes other than
// streaming.
func (s Spec) Delay() int {
	tau, _ := strconv.Atoi(s.FragmentDelay) // validated
	return tau
}

// Border is how many inner steps of the run's time are over when a slot's are done: H in each
// round, however many a peer does. The border of the last slot is how long the run is.
func (s Spec) Border(slotNumber uint64) uint64 {
	p := max(s.Fragments, 1)
	return slotNumber/p*s.InnerSteps + slotNumber%p*s.InnerSteps/p
}

// Interval is how many inner steps lie between the border before a slot's and its own.
func (s Spec) Interval(slotNumber uint64) int {
	return int(s.Border(slotNumber) - s.Border(slotNumber-1))
}

// roundsOfPart is how many rounds of H inner steps a part of the data is enough for where peers do
// as many steps as their speed allows. Rounds then take pieces of a part, and little of it is
// trained twice where the last piece is smaller than a round.
const roundsOfPart = 16

// DataAssignment is how the ledger assigns parts of the data to members: so many slots ahead, and
// where members do different numbers of steps, parts of so many steps; else 0
// (docs/how-to/data.md).
func (s Spec) DataAssignment() (ahead, partSteps uint64) {
	if s.Mode != ModeSync {
		ahead = 1
	}
	if s.Pace != PaceSteps {
		partSteps = s.PartSteps()
	}
	return ahead, partSteps
}

// PartSteps is how many inner steps a part of the data is enough for.
func (s Spec) PartSteps() uint64 {
	switch {
	case s.Pace != PaceSteps:
		return roundsOfPart * s.InnerSteps
	case s.Streams(): // the longest interval
		return (s.InnerSteps + s.Fragments - 1) / s.Fragments
	}
	return s.InnerSteps
}

// mostDelay is the most inner steps that a slot of mode streaming can take to land. With one
// fragment and all inner steps, nothing but what was just loaded would ever be contributed.
func (s Spec) mostDelay() uint64 {
	if s.Fragments == 1 {
		return s.InnerSteps - 1
	}
	return s.InnerSteps / max(s.Fragments, 1)
}

// Alpha is FragmentAlpha as a number: how much of the live parameters stays where a slot lands.
func (s Spec) Alpha() float32 { return number(s.FragmentAlpha) }

// number is a decimal of a validated spec. It is parsed once to float32, so no peer rounds it
// differently.
func number(text string) float32 {
	v, err := strconv.ParseFloat(text, 32)
	if err != nil {
		panic(fmt.Sprintf("p2pdiloco: spec was not validated: %v", err))
	}
	return float32(v)
}
