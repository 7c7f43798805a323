package round

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/p2pdiloco/p2pdiloco/allreduce/figures"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// live are the parameters that the inner steps change: a trainer's model (model.go), or the vector
// of a caller's own loop.
type live interface {
	// load replaces all of them by start.
	load(ctx context.Context, start []float32) error
	// change lets f change ranges of them in v.local, which holds the ranges of kept.
	change(ctx context.Context, v *vectors, ranges, kept []slot.Range, f func()) error
	// look measures the anchor of a slot, which is start, unless it was measured before, and has it
	// answer the question that waits. After that the anchor is loaded if stay is set.
	look(ctx context.Context, slotNumber uint64, start []float32, stay bool) error
	// lookAside does the same with v.start, and leaves the live parameters as they are. It measures
	// nothing unless whole is set: the anchor is that of a whole round.
	lookAside(ctx context.Context, slotNumber uint64, v *vectors, whole bool) error
}

// callersVector is what a caller's own loop passes to Anchor, Sync and Finish.
type callersVector []float32

func (c callersVector) load(_ context.Context, start []float32) error {
	copy(c, start)
	return nil
}

func (c callersVector) change(_ context.Context, v *vectors, ranges, kept []slot.Range, f func()) error {
	v.makeLocal()
	for _, r := range kept {
		copy(v.local[r.Begin:r.End], c[r.Begin:r.End])
	}
	f()
	for _, r := range ranges {
		copy(c[r.Begin:r.End], v.local[r.Begin:r.End])
	}
	return nil
}

func (c callersVector) look(_ context.Context, _ uint64, start []float32, stay bool) error {
	if stay {
		copy(c, start)
	}
	return nil
}

func (c callersVector) lookAside(context.Context, uint64, *vectors, bool) error { return nil }

// model is a trainer's model as the rounds use it. It finds out once what the trainer cannot do,
// and does without that from then on.
type model struct {
	trainer.Trainer
	private trainerState // the trainer's own state, in a file
	gauges  *gauges
	clock   *clock
	emit    func(name string, fields map[string]any)
	slots   uint64 // a round

	asked    atomic.Pointer[question]
	measured *uint64       // slot of the anchor that was evaluated last
	last     trainer.Stats // of the inner steps since they were told last
	blind    bool          // the trainer has said that it cannot evaluate
	coarse   bool          // it has said that it cannot be loaded and exported in parts
}

func (m *model) load(ctx context.Context, start []float32) error {
	if err := m.Load(ctx, start); err != nil {
		return &trainer.Error{Call: "load", Err: err}
	}
	return nil
}

// trained takes in the result of inner steps.
func (m *model) trained(stats trainer.Stats) {
	m.last = m.last.Plus(stats)
	m.gauges.trained(m.last)
}

func (m *model) look(ctx context.Context, slotNumber uint64, start []float32, stay bool) error {
	fresh, q := m.isNew(slotNumber), m.asked.Load()
	if stay || m.takesAnchor(fresh, q) {
		if err := m.load(ctx, start); err != nil {
			return err
		}
	}
	return m.show(ctx, slotNumber, fresh, q)
}

// takesAnchor says whether the anchor has to be loaded to be measured, or for a question.
func (m *model) takesAnchor(fresh bool, q *question) bool {
	_, measures := m.evaluator()
	return fresh && measures || q != nil
}

// show measures the anchor of a slot if it is fresh, and has it answer a question.
func (m *model) show(ctx context.Context, slotNumber uint64, fresh bool, q *question) error {
	if fresh {
		if err := m.measure(ctx, slotNumber); err != nil {
			return err
		}
	}
	return m.answer(ctx, slotNumber, q)
}

func (m *model) lookAside(ctx context.Context, slotNumber uint64, v *vectors, whole bool) error {
	fresh, q := whole && m.isNew(slotNumber), m.asked.Load()
	if !m.takesAnchor(fresh, q) {
		return m.show(ctx, slotNumber, fresh, q)
	}
	v.makeLocal()
	if err := m.Export(ctx, v.local); err != nil {
		return &trainer.Error{Call: "export", Err: err}
	}
	if err := m.load(ctx, v.start); err != nil {
		return err
	}
	if err := m.show(ctx, slotNumber, fresh, q); err != nil {
		return err
	}
	return m.hand(ctx, v, v.everything())
}

// isNew says whether an anchor was not measured before.
func (m *model) isNew(slotNumber uint64) bool { return m.measured == nil || *m.measured != slotNumber }

// measure reports how the last round went, and how good the anchor is. It loads the anchor if the
// trainer can evaluate it.
func (m *model) measure(ctx context.Context, slotNumber uint64) error {
	fields := map[string]any{
		"round": slotNumber / m.slots, "tokens": m.last.Tokens, "seconds": m.last.Elapsed.Seconds(),
		"stall": m.clock.newest.Seconds(),
	}
	// a figure that is no number would make the whole event no JSON
	figure := func(name string, v float64) {
		if figures.Finite(v) != nil {
			fields[name] = v
		}
	}
	figure("train_loss", m.last.Loss)
	figure("grad_norm", m.last.GradNorm)
	m.measured = &slotNumber
	if e, ok := m.evaluator(); ok {
		switch loss, err := e.Evaluate(ctx); {
		case err == nil:
			figure("loss", loss)
			m.gauges.measured(slotNumber, loss)
		case errors.Is(err, errors.ErrUnsupported):
			m.blind = true
		default:
			return &trainer.Error{Call: "evaluate", Err: err}
		}
	}
	m.emit("trainer.stats", fields)
	// after the last slot there are no more inner steps
	m.last, m.clock.newest = trainer.Stats{Loss: m.last.Loss, GradNorm: m.last.GradNorm}, 0
	return nil
}

// evaluator returns the trainer, if it can evaluate.
func (m *model) evaluator() (e trainer.Evaluator, ok bool) {
	e, ok = m.Trainer.(trainer.Evaluator)
	return e, ok && !m.blind
}

// export fetches ranges of the live parameters for a pseudo-gradient, or all of them where there
// are none; or the pseudo-gradient itself, with calls of ready as it comes.
func (m *model) export(ctx context.Context, g *gradient, ranges []slot.Range, ready func(n uint64) error) error {
	if e, ok := m.Trainer.(trainer.GradientExporter); ok && ranges == nil {
		return e.ExportGradient(ctx, g.start, g.own, func(_, end int) error { return ready(uint64(end)) })
	}
	if e, ok := m.Trainer.(trainer.RangeGradientExporter); ok && ranges != nil && m.divides() {
		done, err := uint64(0), error(nil)
		for _, r := range ranges {
			err = e.ExportGradientRange(ctx, int(r.Begin), g.start[r.Begin:r.End], g.local[r.Begin:r.End])
			if done += r.Len(); err == nil {
				err = ready(done)
			}
			if err != nil {
				break
			}
		}
		if !errors.Is(err, errors.ErrUnsupported) {
			return err
		}
		m.coarse = true
	}
	g.params = g.own
	if ranges == nil {
		return m.Export(ctx, g.own)
	}
	return m.fetch(ctx, g.vectors, ranges)
}

// change exports parts of the live parameters and loads them again. It uses RangeTrainer, or the
// whole vector if the trainer cannot do that.
func (m *model) change(ctx context.Context, v *vectors, ranges, kept []slot.Range, f func()) error {
	v.makeLocal()
	if !m.divides() && len(ranges) > 0 {
		ranges = v.everything()
		kept = ranges
	}
	err := m.fetch(ctx, v, kept)
	if err != nil {
		err = &trainer.Error{Call: "export", Err: err}
	} else {
		f()
		err = m.hand(ctx, v, ranges)
	}
	// this is the first request, and nothing has changed yet
	if err != nil && m.divides() && errors.Is(err, errors.ErrUnsupported) {
		m.coarse = true
		return m.change(ctx, v, ranges, kept, f)
	}
	return err
}

// divides says whether the trainer can export and load parts of the live parameters.
func (m *model) divides() bool {
	_, ok := m.Trainer.(trainer.RangeTrainer)
	return ok && !m.coarse
}

// fetch copies ranges of the live parameters, or all of them, to v.local.
func (m *model) fetch(ctx context.Context, v *vectors, ranges []slot.Range) error {
	for i, r := range ranges {
		if !m.divides() || r.Len() == uint64(len(v.local)) {
			return m.Export(ctx, v.local)
		}
		err := m.Trainer.(trainer.RangeTrainer).ExportRange(ctx, int(r.Begin), v.local[r.Begin:r.End])
		if i == 0 && errors.Is(err, errors.ErrUnsupported) {
			m.coarse = true
			return m.Export(ctx, v.local)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// hand loads ranges of v.local. They pass through v.start, which is where a trainer with vectors of
// its own takes them from.
func (m *model) hand(ctx context.Context, v *vectors, ranges []slot.Range) error {
	for _, r := range ranges {
		v.swap(r)
		var err error
		if r.Len() == uint64(len(v.start)) {
			err = m.Load(ctx, v.start)
		} else {
			err = m.Trainer.(trainer.RangeTrainer).LoadRange(ctx, int(r.Begin), v.start[r.Begin:r.End])
		}
		copy(v.start[r.Begin:r.End], v.local[r.Begin:r.End])
		if err != nil {
			return &trainer.Error{Call: "load", Err: err}
		}
	}
	return nil
}
