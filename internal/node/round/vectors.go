package round

import (
	"fmt"

	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// vectors are the buffers of the rounds, of D elements each.
type vectors struct {
	layout trainer.Layout
	// where the inner steps started: the anchor, moved ahead in an overlapped mode
	start []float32
	local []float32 // live parameters, or the pseudo-gradient; nil: not needed yet
}

// newVectors makes the vectors of a layout. A trainer may bring its own; it may be nil.
func newVectors(layout trainer.Layout, t trainer.Trainer) (vectors, error) {
	v, d := vectors{layout: layout}, int(layout.Elements())
	m, ok := t.(trainer.VectorMaker)
	if !ok {
		v.start = make([]float32, d)
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

// subtract makes the pseudo-gradient start - params in local, in some ranges.
func (v *vectors) subtract(params []float32, ranges []slot.Range) error {
	v.makeLocal()
	for _, r := range ranges {
		local := v.local[r.Begin:r.End]
		if bad := kernel.ParallelSub(local, v.start[r.Begin:r.End], params[r.Begin:r.End]); bad >= 0 {
			return v.diverged(r.Begin+uint64(bad), local[bad])
		}
	}
	return nil
}

// makeLocal makes local where there is none.
func (v *vectors) makeLocal() {
	if v.local == nil {
		v.local = make([]float32, len(v.start))
	}
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

// diverged is the error of a pseudo-gradient that has a value of no use in element i.
func (v *vectors) diverged(i uint64, value float32) error {
	if err := v.sound(); err != nil {
		return err
	}
	return fmt.Errorf("%w: element %d of %d (tensor %q) is %v: the inner steps diverged",
		trainer.ErrNotFinite, i, len(v.start), v.layout.At(i), value)
}

// everything returns the one range of all elements.
func (v *vectors) everything() []slot.Range { return []slot.Range{{End: uint64(len(v.start))}} }

// swap exchanges the elements of a range between start and local.
func (v *vectors) swap(r slot.Range) {
	start, local := v.start[r.Begin:r.End], v.local[r.Begin:r.End]
	for j, x := range start {
		start[j], local[j] = local[j], x
	}
}
