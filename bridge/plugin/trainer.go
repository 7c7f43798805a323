package plugin

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// saveAfter is how long Save waits for the call before it: a peer that leaves does not wait for
// inner steps that ignore cancel.
const saveAfter = 2 * time.Second

// Trainer is a trainer library in a process of its own. It implements trainer.Trainer and all
// optional interfaces of a trainer; a method that the library cannot do returns
// errors.ErrUnsupported. Calls from several goroutines run one after the other.
type Trainer struct {
	cfg       Config
	memory    *memory
	layout    trainer.Layout
	about     About
	temporary bool // the data folder

	turns turns
	given bool // the shared vectors went to a node

	closing  sync.Once
	closeErr error
}

var (
	_ trainer.Trainer          = (*Trainer)(nil)
	_ trainer.Evaluator        = (*Trainer)(nil)
	_ trainer.Saver            = (*Trainer)(nil)
	_ trainer.GradientExporter = (*Trainer)(nil)
	_ trainer.VectorMaker      = (*Trainer)(nil)
	_ trainer.RangeTrainer     = (*Trainer)(nil)
)

// Init writes the initial parameters, which follow from Config and Seed, into dst.
func (t *Trainer) Init(ctx context.Context, dst []float32) error {
	if err := t.fits(dst); err != nil {
		return err
	}
	c := &call{request: request{op: opInit, arg: [requestArgs]uint64{t.cfg.Seed}}, doing: "init"}
	_, err := t.turns.do(ctx, c, watchers{exported: func(uint64) error {
		t.copyOut(dst, 0)
		if err := t.finite(dst, 0); err != nil {
			return t.turns.host.fault(c, err.Error(), err)
		}
		return nil
	}})
	return err
}

// Load replaces the live parameters. The inner optimizer's state stays.
func (t *Trainer) Load(ctx context.Context, anchor []float32) error {
	if err := t.fits(anchor); err != nil {
		return err
	}
	return t.LoadRange(ctx, 0, anchor)
}

// LoadRange replaces the live parameters from element begin on.
func (t *Trainer) LoadRange(ctx context.Context, begin int, src []float32) error {
	end := begin + len(src)
	// end is before begin if it overflowed
	if begin < 0 || begin >= end || end > t.elements() {
		return fmt.Errorf("%s: load: elements %d to %d of a model of %d", t.cfg.Path, begin, end, t.elements())
	}
	c := &call{request: request{op: opLoad, arg: [requestArgs]uint64{uint64(begin), uint64(len(src))}}, doing: "load"}
	_, err := t.turns.do(ctx, c, watchers{before: func() {
		if shared := t.memory.start[begin:end]; !same(src, shared) {
			copy(shared, src)
		}
	}})
	return err
}

func (t *Trainer) elements() int { return int(t.layout.Elements()) }

func (t *Trainer) fits(v []float32) error {
	if len(v) != t.elements() {
		return fmt.Errorf("%s: a vector of %d elements for a model of %d", t.cfg.Path, len(v), t.elements())
	}
	return nil
}

// finite refuses a NaN, an infinity or a value that is too large in v. begin is the element of the
// flat vector at which v begins.
func (t *Trainer) finite(v []float32, begin int) error {
	i := kernel.Bounded(v)
	if i < 0 {
		return nil
	}
	name, index := tensorAt(t.layout, uint64(begin+i))
	return notFiniteError(fmt.Sprintf("element %d (tensor %q, element %d) is %v", begin+i, name, index, v[i]))
}

// notFiniteError is trainer.ErrNotFinite for a vector that is not a pseudo-gradient.
type notFiniteError string

func (e notFiniteError) Error() string { return string(e) }
func (notFiniteError) Unwrap() error   { return trainer.ErrNotFinite }

// Train does task.Steps inner steps. When ctx ends it returns at once, and asks the library to end
// its run.
func (t *Trainer) Train(ctx context.Context, task trainer.Task) (trainer.Stats, error) {
	rank := slices.Index(task.Members, task.Self)
	if rank < 0 || task.Steps < 1 {
		return trainer.Stats{}, fmt.Errorf("%s: run: a task of %d steps for %s among %v", t.cfg.Path, task.Steps,
			task.Self, task.Members)
	}
	var members strings.Builder
	for _, m := range task.Members {
		members.WriteString(m.String() + "\x00")
	}
	done := func() uint64 { return t.memory.steps().Load() }
	c := &call{
		request: request{
			op: opRun, payload: members.String(),
			arg: [requestArgs]uint64{
				task.Slot, uint64(task.Steps), task.Seed, uint64(rank), task.Part,
				uint64(task.PartSteps), task.Done,
			},
		},
		doing: fmt.Sprintf("run for slot %d", task.Slot), cancellable: true, beat: done,
		where: func() string { return fmt.Sprintf(" after %d of %d steps", done(), task.Steps) },
	}
	r, err := t.turns.do(ctx, c, watchers{
		before: func() { t.memory.steps().Store(0) },
		tick:   func() { task.Report(int(min(done(), uint64(task.Steps)))) },
	})
	if err != nil {
		return trainer.Stats{}, err
	}
	stats, err := parseStats(r.payload, task.Steps)
	if err != nil {
		return stats, t.turns.host.fault(c, err.Error(), err)
	}
	task.Report(stats.Steps)
	return stats, nil
}

// StepsDone is the number of steps that the library reports of its run, or of its last one. It must
// not be called after Close.
func (t *Trainer) StepsDone() uint64 { return t.memory.steps().Load() }

// Evaluate measures the held-out loss, in nats per token.
func (t *Trainer) Evaluate(ctx context.Context) (float64, error) {
	if !t.about.Evaluates {
		return 0, errors.ErrUnsupported
	}
	c := &call{request: request{op: opEvaluate}, doing: "evaluate", cancellable: true}
	r, err := t.turns.do(ctx, c, watchers{})
	if err != nil {
		return 0, err
	}
	if len(r.payload) != 8 {
		return 0, errGarbled
	}
	loss := math.Float64frombits(native.Uint64(r.payload))
	if math.IsNaN(loss) || math.IsInf(loss, 0) {
		return 0, t.turns.host.fault(c, fmt.Sprintf("the held-out loss is %v: training diverged, take a lower "+
			"learning rate",
			loss), nil)
	}
	return loss, nil
}

// Save writes the inner optimizer's state and the data position to a file. It does not wait long
// for a call whose caller has stopped waiting.
func (t *Trainer) Save(ctx context.Context, path string) error {
	soon, stop := context.WithTimeout(ctx, saveAfter)
	defer stop()
	switch err := t.turns.take(soon); {
	case err == nil:
		t.turns.release()
	case soon.Err() != nil && ctx.Err() == nil:
		return fmt.Errorf("%s: save: the call before has not ended", t.cfg.Path)
	default:
		return err
	}
	return t.file(ctx, opSave, "save", path)
}

// Restore reads what Save wrote.
func (t *Trainer) Restore(ctx context.Context, path string) error {
	return t.file(ctx, opRestore, "restore", path)
}

func (t *Trainer) file(ctx context.Context, o op, doing, path string) error {
	if !t.about.Saves {
		return errors.ErrUnsupported
	}
	_, err := t.ask(ctx, o, doing, path)
	return err
}

// MakeVectors gives the first caller the memory that is shared with the library, so that vectors
// need not be copied a second time. That memory lasts until Close. Later callers get ordinary
// memory.
func (t *Trainer) MakeVectors(n int) (start, local []float32, err error) {
	select {
	case t.turns.turn <- struct{}{}:
	case <-t.turns.closed:
		return nil, nil, t.turns.isClosed()
	}
	defer t.turns.release()
	if n != t.elements() || t.given || t.memory.start == nil {
		return make([]float32, n), make([]float32, n), nil
	}
	t.given = true
	return t.memory.start, t.memory.local, nil
}
