package plugin

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
)

const (
	abandonAfter = time.Second      // from a cancel to not waiting for the library any more
	saveAfter    = 2 * time.Second  // for what is under way at Save: who leaves does not wait for a run that is deaf to cancel
	closeGrace   = 30 * time.Second // for what is under way at Close, and for destroy
)

// Trainer is a trainer library in a process of its own. It implements p2pdiloco.Trainer and all that a node asks of one beyond that;
// what the library cannot do returns errors.ErrUnsupported. Calls from several goroutines follow each other.
type Trainer struct {
	cfg       Config
	host      *host
	memory    *memory
	layout    p2pdiloco.Layout
	about     About
	temporary bool // the data folder

	turn    chan struct{} // holds a token while somebody calls; what follows is the caller's
	pending *call         // whoever made it did not wait for its end
	failed  bool          // by the ABI, only destroy may follow
	fault   error         // why
	given   bool          // the vectors, to a node

	closed   chan struct{}
	closing  sync.Once
	closeErr error
}

var (
	_ p2pdiloco.Trainer          = (*Trainer)(nil)
	_ p2pdiloco.Evaluator        = (*Trainer)(nil)
	_ p2pdiloco.Saver            = (*Trainer)(nil)
	_ p2pdiloco.GradientExporter = (*Trainer)(nil)
	_ p2pdiloco.VectorMaker      = (*Trainer)(nil)
)

// watchers are what a caller does before its call, and while it is under way.
type watchers struct {
	before   func()                  // with the shared vectors for itself
	tick     func()                  // now and then
	exported func(upTo uint64) error // whenever elements below upTo are there, and at the end; an error ends the waiting
}

// do makes a call and waits for its end, or ctx's.
func (t *Trainer) do(ctx context.Context, c *call, w watchers) (reply, error) {
	if err := t.take(ctx); err != nil {
		return reply{}, err
	}
	defer t.release()
	if w.before != nil {
		w.before()
	}
	t.pending = t.host.start(c)
	return t.await(ctx, c, w)
}

// take waits for the turn to call, and for a call that was left alone.
func (t *Trainer) take(ctx context.Context) error {
	select {
	case t.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	case <-t.closed:
		return t.isClosed()
	}
	err := t.settle(ctx)
	if err != nil {
		t.release()
	}
	return err
}

// settle waits for a call that was left alone, and says whether there can be another one.
func (t *Trainer) settle(ctx context.Context) error {
	if t.pending != nil {
		select {
		case <-t.pending.done:
			t.ended(t.pending)
		case <-ctx.Done():
			return ctx.Err()
		case <-t.closed:
		}
	}
	select {
	case <-t.closed:
		return t.isClosed()
	default:
	}
	if t.failed {
		return t.fault
	}
	return nil
}

func (t *Trainer) release() { <-t.turn }

func (t *Trainer) isClosed() error { return fmt.Errorf("%s: closed: %w", t.cfg.Path, net.ErrClosed) }

// ended notes what became of a call. Save and restore may fail and leave the trainer as it is.
func (t *Trainer) ended(c *call) {
	t.pending = nil
	harmless := c.err == nil || errors.Is(c.err, errCancelled) || (c.op == opSave || c.op == opRestore) && t.host.dead == nil
	if !harmless && !t.failed {
		t.failed, t.fault = true, c.err
	}
}

// await waits for a call. One that is not over soon after ctx has ended is left alone, and the next call waits for it.
func (t *Trainer) await(ctx context.Context, c *call, w watchers) (reply, error) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		var err error
		select {
		case <-c.done:
			if t.ended(c); c.err == nil && w.exported != nil {
				return c.reply, w.exported(math.MaxUint64)
			}
			return c.reply, c.err
		case <-c.progress:
			if w.exported != nil {
				err = w.exported(c.exported.Load())
			}
		case <-ticker.C:
			if w.tick != nil {
				w.tick()
			}
		case <-ctx.Done():
			err = ctx.Err()
		case <-t.closed:
			err = t.isClosed()
		}
		if err != nil {
			t.leaveAlone(c)
			return reply{}, err
		}
	}
}

func (t *Trainer) leaveAlone(c *call) {
	c.cancelled()
	select {
	case <-c.done:
		t.ended(c)
	case <-time.After(abandonAfter):
	}
}

// Init writes the initial parameters, which follow from Config and Seed, into dst.
func (t *Trainer) Init(ctx context.Context, dst []float32) error {
	if err := t.fits(dst); err != nil {
		return err
	}
	c := &call{request: request{op: opInit, arg: [4]uint64{t.cfg.Seed}}, doing: "init"}
	_, err := t.do(ctx, c, watchers{exported: func(uint64) error {
		t.copyOut(dst, 0)
		if err := t.finite(dst, 0); err != nil {
			return t.host.fault(c, err.Error(), err)
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
	if begin < 0 || end > t.elements() || len(src) == 0 {
		return fmt.Errorf("%s: load: elements %d to %d of a model of %d", t.cfg.Path, begin, end, t.elements())
	}
	c := &call{request: request{op: opLoad, arg: [4]uint64{uint64(begin), uint64(len(src))}}, doing: "load"}
	_, err := t.do(ctx, c, watchers{before: func() {
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

// finite refuses a NaN, an infinity or what is too large in v, which begins at an element of the flat vector.
func (t *Trainer) finite(v []float32, begin int) error {
	i := kernel.Bounded(v)
	if i < 0 {
		return nil
	}
	name, index := tensorAt(t.layout, uint64(begin+i))
	return notFiniteError(fmt.Sprintf("element %d (tensor %q, element %d) is %v", begin+i, name, index, v[i]))
}

// notFiniteError is p2pdiloco.ErrNotFinite of something that is no pseudo-gradient.
type notFiniteError string

func (e notFiniteError) Error() string { return string(e) }
func (notFiniteError) Unwrap() error   { return p2pdiloco.ErrNotFinite }

// Train does task.Steps inner steps. When ctx ends it returns at once, and the library is told to end its run.
func (t *Trainer) Train(ctx context.Context, task p2pdiloco.Task) (p2pdiloco.Stats, error) {
	rank := slices.Index(task.Members, task.Self)
	if rank < 0 || task.Steps < 1 {
		return p2pdiloco.Stats{}, fmt.Errorf("%s: run: a task of %d steps for %s among %v", t.cfg.Path, task.Steps, task.Self, task.Members)
	}
	var members strings.Builder
	for _, m := range task.Members {
		members.WriteString(m.String() + "\x00")
	}
	done := func() uint64 { return t.memory.steps().Load() }
	c := &call{
		request: request{op: opRun, arg: [4]uint64{task.Slot, uint64(task.Steps), task.Seed, uint64(rank)}, payload: members.String()},
		doing:   fmt.Sprintf("run for slot %d", task.Slot), cancellable: true, beat: done,
		where: func() string { return fmt.Sprintf(" after %d of %d steps", done(), task.Steps) },
	}
	r, err := t.do(ctx, c, watchers{before: func() { t.memory.steps().Store(0) }, tick: func() { task.Report(int(min(done(), uint64(task.Steps)))) }})
	if err != nil {
		return p2pdiloco.Stats{}, err
	}
	stats, err := parseStats(r.payload, task.Steps)
	if err != nil {
		return stats, t.host.fault(c, err.Error(), err)
	}
	task.Report(stats.Steps)
	return stats, nil
}

// StepsDone is how far the library says that its run is, or its last one was. Not after Close.
func (t *Trainer) StepsDone() uint64 { return t.memory.steps().Load() }

// Evaluate measures the held-out loss, in nats per token.
func (t *Trainer) Evaluate(ctx context.Context) (float64, error) {
	if !t.about.Evaluates {
		return 0, errors.ErrUnsupported
	}
	c := &call{request: request{op: opEvaluate}, doing: "evaluate", cancellable: true}
	r, err := t.do(ctx, c, watchers{})
	if err != nil {
		return 0, err
	}
	if len(r.payload) != 8 {
		return 0, errGarbled
	}
	loss := math.Float64frombits(native.Uint64(r.payload))
	if math.IsNaN(loss) || math.IsInf(loss, 0) {
		return 0, t.host.fault(c, fmt.Sprintf("the held-out loss is %v: training diverged, take a lower learning rate", loss), nil)
	}
	return loss, nil
}

// Save writes the inner optimizer's state and the data position to a file. It does not wait long for a call that was left alone.
func (t *Trainer) Save(ctx context.Context, path string) error {
	soon, stop := context.WithTimeout(ctx, saveAfter)
	defer stop()
	switch err := t.take(soon); {
	case err == nil:
		t.release()
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
	_, err := t.do(ctx, &call{request: request{op: o, payload: path}, doing: doing}, watchers{})
	return err
}

// MakeVectors gives the memory that is shared with the library to the first who asks: what lies there is copied no second time.
// It is there until Close. Others get ordinary memory.
func (t *Trainer) MakeVectors(n int) (start, local []float32, err error) {
	select {
	case t.turn <- struct{}{}:
	case <-t.closed:
		return nil, nil, t.isClosed()
	}
	defer t.release()
	if n != t.elements() || t.given || t.memory.start == nil {
		return make([]float32, n), make([]float32, n), nil
	}
	t.given = true
	return t.memory.start, t.memory.local, nil
}

// Close destroys the trainer and ends its process. The node that worked with it must be closed: its vectors are gone. It returns
// what went wrong in destroy, and nothing new of a trainer that had failed before.
func (t *Trainer) Close() error {
	t.closing.Do(func() {
		close(t.closed)
		t.turn <- struct{}{}
		t.closeErr = t.close()
		t.release()
	})
	return t.closeErr
}

func (t *Trainer) close() error {
	var errs []error
	if t.host != nil {
		errs = append(errs, t.destroy(), t.host.close())
	}
	if t.memory != nil {
		errs = append(errs, t.memory.close())
	}
	if t.temporary {
		errs = append(errs, os.RemoveAll(t.cfg.DataDir))
	}
	return errors.Join(errs...)
}

// destroy ends the trainer as it would have it, as long as it can be waited for.
func (t *Trainer) destroy() error {
	if p := t.pending; p != nil {
		p.cancelled()
		select {
		case <-p.done:
			t.ended(p)
		case <-time.After(min(closeGrace, t.cfg.Timeout)):
			t.host.kill()
			<-p.done
			return nil // it was asked for nothing but an early end, and the peer is going
		}
	}
	if t.host.dead != nil {
		return nil
	}
	c := &call{request: request{op: opClose}, doing: "destroy"}
	if t.failed {
		c.arg[0] = 1
	}
	t.host.timeout = min(t.host.timeout, closeGrace)
	<-t.host.start(c).done
	if errors.Is(c.err, ErrHung) {
		return t.unlessFailed(c.err)
	}
	select {
	case <-t.host.exited:
	case <-time.After(t.host.timeout):
		t.host.kill()
		<-t.host.exited
	}
	if !t.host.endedWell() {
		return t.unlessFailed(t.host.fault(c, t.host.ending(), ErrCrashed))
	}
	return nil
}

func (t *Trainer) unlessFailed(err error) error {
	if t.failed {
		return nil
	}
	return err
}
