package p2pdiloco

import (
	"fmt"
	"strconv"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Orders of a run's fragments (Spec.FragmentOrder).
const (
	OrderStrided    = "strided"    // each fragment has layers of all depths
	OrderSequential = "sequential" // as the tensors lie
)

// LastSlot is the slot that a settled spec's run ends with: in each round every fragment has one.
func (s Spec) LastSlot() uint64 { return s.Rounds * max(s.Fragments, 1) }

// FragmentOf is the fragment that a slot updates: slots are counted from 1, and take the fragments in turn.
func (s Spec) FragmentOf(slotNumber uint64) int {
	return int(slot.FragmentOf(slotNumber, max(s.Fragments, 1)))
}

// fragments are the parts that a settled spec divides the vector into. It takes a while with many tensors: once is enough.
func (s Spec) fragments() []slot.Fragment {
	return s.Layout.Fragments(s.Fragments, s.FragmentOrder == OrderStrided)
}

// fragmentElements are their sizes.
func (s Spec) fragmentElements() []uint64 {
	return slot.FragmentElements(s.Layout.Elements(), s.Fragments)
}

// checkFragments says what of a spec does not go with its fragments.
func (s Spec) checkFragments() (errs []error) {
	if s.Fragments > 1 && len(s.Discount) > 1 && !s.Streams() { // which has its own word on it
		errs = append(errs, &SpecError{Field: "discount", Here: fieldText(&s.Discount), Why: "with more than one fragment only 1000: the next slot takes another"})
	}
	if d := s.Layout.Elements(); len(s.Layout) > 0 && s.Fragments > d {
		errs = append(errs, &SpecError{Field: "fragments", Here: strconv.FormatUint(s.Fragments, 10), Why: fmt.Sprintf("more than the model's %d elements", d)})
	}
	return errs
}

// gather is what a slot's fragment has of a vector of D elements: a view of it, or a copy that the next call overwrites.
func (n *Node) gather(slotNumber uint64, flat []float32) []float32 {
	f := n.fragment(slotNumber)
	if len(f.Ranges) == 1 {
		return flat[f.Ranges[0].Begin:f.Ranges[0].End]
	}
	if n.part == nil {
		n.part = make([]float32, n.worker.state.fragments[0].Elements()) // none is larger
	}
	part := n.part[:f.Elements()]
	f.Gather(part, flat)
	return part
}

// fragment is the part of the vector that a slot updates.
func (n *Node) fragment(slotNumber uint64) slot.Fragment { return n.worker.state.fragment(slotNumber) }
