package round

import (
	"fmt"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/vector"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// vectors are the buffers of the rounds, of D elements each.
type vectors struct {
	layout trainer.Layout
	// where the inner steps started: the anchor, moved ahead in an overlapped mode
	start []float32
	local []float32 // scratch: live parameters, then the pseudo-gradient
	part  []float32 // scratch of gather: one fragment
}

// newVectors makes the vectors of a layout. A trainer may bring its own; it may be nil.
func newVectors(layout trainer.Layout, t trainer.Trainer) (vectors, error) {
	v, d := vectors{layout: layout}, int(layout.Elements())
	m, ok := t.(trainer.VectorMaker)
	if !ok {
		v.start, v.local = make([]float32, d), make([]float32, d)
		return v, nil
	}
	var err error
	if v.start, v.local, err = m.MakeVectors(d); err != nil {
		return vectors{}, &trainer.Error{Call: "vectors", Err: err}
	}
	return v, nil
}

// check refuses a vector of the caller's that does not have D elements.
func (v *vectors) check(x []float32) error {
	if len(x) != len(v.start) {
		return fmt.Errorf("%w: %d elements given, the run's model has %d", ErrLength, len(x), len(v.start))
	}
	return nil
}

// subtract makes the pseudo-gradient start - params in local, in some ranges. params may be local
// itself.
func (v *vectors) subtract(params []float32, ranges []slot.Range) error {
	for _, r := range ranges {
		vector.Sub(v.local[r.Begin:r.End], v.start[r.Begin:r.End], params[r.Begin:r.End])
		if err := v.finite(int(r.Begin), int(r.End)); err != nil {
			return err
		}
	}
	return nil
}

// badModel says that what the inner steps start from is no model at all, whoever trains it.
type badModel struct{ where error }

func (b badModel) Error() string {
	return fmt.Sprintf("the run's model is bad, and was so before this peer trained it: %v. Nobody can train it: "+
		"found another run from a sound model", b.where)
}

func (badModel) Unwrap() error { return trainer.ErrNotFinite }

// sound refuses a start that is not finite.
func (v *vectors) sound() error {
	if where := slot.NotFinite(v.layout, v.start); where != nil {
		return badModel{where}
	}
	return nil
}

// finite refuses a pseudo-gradient that has a value of no use in [begin, end).
func (v *vectors) finite(begin, end int) error {
	i := vector.Bounded(v.local[begin:end])
	if i < 0 {
		return nil
	}
	if err := v.sound(); err != nil {
		return err
	}
	i += begin
	return fmt.Errorf("%w: element %d of %d (tensor %q) is %v: the inner steps diverged",
		trainer.ErrNotFinite, i, len(v.local),
		v.layout.At(uint64(i)), v.local[i])
}

// gather returns a fragment's part of a vector of D elements: a view of it, or a copy that the next
// call overwrites.
func (v *vectors) gather(f slot.Fragment, flat []float32) []float32 {
	if len(f.Ranges) == 1 {
		return flat[f.Ranges[0].Begin:f.Ranges[0].End]
	}
	if n := int(f.Elements()); len(v.part) < n {
		v.part = make([]float32, n)
	}
	part := v.part[:f.Elements()]
	f.Gather(part, flat)
	return part
}

// everything returns the one range of all elements.
func (v *vectors) everything() []slot.Range { return []slot.Range{{End: uint64(len(v.local))}} }

// swap exchanges the elements of a range between start and local.
func (v *vectors) swap(r slot.Range) {
	start, local := v.start[r.Begin:r.End], v.local[r.Begin:r.End]
	for j, x := range start {
		start[j], local[j] = local[j], x
	}
}
