package p2pdiloco

import "github.com/p2pdiloco/p2pdiloco/membership"

// Who trains on which part of the data (docs/data.md): the ledger deals, along its chain (membership).

// partsOfRounds is how many rounds of H inner steps a part is enough for where peers do as many as their speed allows: rounds then take pieces
// of a part, and little of it is trained twice where the last piece is smaller than a round.
const partsOfRounds = 16

// dealing is how the ledger deals parts: so many slots ahead, and if peers do different numbers of steps, by steps.
func (s Spec) dealing() (ahead, partSteps uint64) {
	if s.Mode != ModeSync {
		ahead = 1
	}
	if s.Pace != PaceSteps {
		partSteps = s.partSteps()
	}
	return ahead, partSteps
}

// partSteps is how many inner steps a part is enough for.
func (s Spec) partSteps() uint64 {
	switch {
	case s.Pace != PaceSteps:
		return partsOfRounds * s.InnerSteps
	case s.Streams(): // what the longest way to a border takes
		return (s.InnerSteps + s.Fragments - 1) / s.Fragments
	}
	return s.InnerSteps
}

// deal gives the task this peer's part for its slot. There is none where the slot closed meanwhile: then its round will be cut short.
func (t *Task) deal(v membership.View) {
	if part, ok := v.Part(t.Slot); ok {
		t.Part, t.Done = part.Number, part.Done
	}
}
