//go:build cgo && unix

package cgo

// #include <stdlib.h>
// #include "host.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

func (l *library) About() About           { return l.about }
func (l *library) Layout() trainer.Layout { return l.layout }
func (l *library) StepsDone() uint64      { return atomic.LoadUint64((*uint64)(&l.h.steps)) }

// MakeVectors gives the first caller the memory that the library knows, so that vectors need not be
// copied a second time. That memory lasts until Close. Later callers get ordinary memory.
func (l *library) MakeVectors(n int) (start, local []float32, err error) {
	if err := l.usable(); err != nil {
		return nil, nil, err
	}
	if n != int(l.layout.Elements()) || l.given {
		return make([]float32, n), make([]float32, n), nil
	}
	l.given = true
	second := (*float32)(unsafe.Add(l.base(), l.vectorBytes()))
	return unsafe.Slice((*float32)(l.base()), n), unsafe.Slice(second, n), nil
}

// Init writes the initial parameters, which follow from Config and Seed, into dst.
func (l *library) Init(ctx context.Context, dst []float32) error {
	l.h.seed = C.uint64_t(l.cfg.Seed)
	return l.moves(ctx, "init", C.HOST_INIT, 0, dst, true)
}

// Load replaces the live parameters. The inner optimizer's state stays.
func (l *library) Load(ctx context.Context, start []float32) error {
	return l.moves(ctx, "load", C.HOST_LOAD, 0, start, true)
}

// LoadRange replaces the live parameters from element begin on.
func (l *library) LoadRange(ctx context.Context, begin int, src []float32) error {
	return l.moves(ctx, "load", C.HOST_LOAD, begin, src, false)
}

// Export writes the live parameters into dst.
func (l *library) Export(ctx context.Context, dst []float32) error {
	return l.moves(ctx, "export_params", C.HOST_EXPORT_PARAMS, 0, dst, true)
}

// ExportRange writes the live parameters from element begin on into dst. Its error wraps
// trainer.ErrNotFinite if one is not finite.
func (l *library) ExportRange(ctx context.Context, begin int, dst []float32) error {
	return l.moves(ctx, "export_params", C.HOST_EXPORT_PARAMS, begin, dst, false)
}

// GradientRange writes the pseudo-gradient as the library computes it: what was loaded minus the
// live parameters.
func (l *library) GradientRange(ctx context.Context, begin int, dst []float32) error {
	if !l.about.ExportsGradient {
		return errors.ErrUnsupported
	}
	return l.moves(ctx, "export_gradient", C.HOST_EXPORT_GRADIENT, begin, dst, false)
}

// moves has the library read elements from v, or write them there, where they have to be finite.
func (l *library) moves(ctx context.Context, doing string, f C.enum_host_function, begin int, v []float32, whole bool,
) error {
	all := int(l.layout.Elements())
	if begin < 0 || len(v) < 1 || begin > all || len(v) > all-begin || whole && len(v) != all {
		return l.errorf("%s: %d elements from %d on of a model of %d", doing, len(v), begin, all)
	}
	return l.call(ctx, doing, func() error {
		if err := l.must(doing, l.host(f, begin, len(v), unsafe.Pointer(&v[0]))); err != nil || f == C.HOST_LOAD {
			return err
		}
		i := kernel.Bounded(v)
		if i < 0 {
			return nil
		}
		return &Fault{
			Library: l.cfg.Path, Doing: doing, Err: trainer.ErrNotFinite, stands: true,
			Problem: fmt.Sprintf("element %d (tensor %q) is %v", begin+i, l.layout.At(uint64(begin+i)), v[i]),
		}
	})
}

// exportStep is the number of elements of one request of ExportGradient. While the library copies
// one range, the node works on the one before.
const exportStep = 4 << 20

// ExportGradient writes start - live parameters; the library subtracts, or this peer does where it
// can't. start is the vector that was loaded last. ready is called for each range of dst that is
// done, while the next one is copied.
func (l *library) ExportGradient(ctx context.Context, start, dst []float32, ready func(begin, end int) error) error {
	doing, f := "export_params", C.enum_host_function(C.HOST_EXPORT_PARAMS)
	if l.about.ExportsGradient {
		doing, f = "export_gradient", C.HOST_EXPORT_GRADIENT
	}
	if all := int(l.layout.Elements()); len(dst) != all || len(start) != all {
		return l.errorf("%s: a vector of %d elements for one of a model of %d", doing, len(dst), all)
	}
	next := func(begin int) (*call, error) {
		to := dst[begin:min(begin+exportStep, len(dst))]
		return l.begin(ctx, doing, func() error {
			err := l.must(doing, l.host(f, begin, len(to), unsafe.Pointer(&to[0])))
			if f == C.HOST_EXPORT_PARAMS {
				kernel.Sub(to, start[begin:begin+len(to)], to)
			}
			return err
		})
	}
	c, err := next(0)
	for begin, end := 0, 0; begin < len(dst) && err == nil; begin = end {
		if err = l.wait(context.Background(), c, nil); err != nil {
			return err
		}
		if end = min(begin+exportStep, len(dst)); end < len(dst) {
			c, err = next(end)
		}
		if why := ready(begin, end); why != nil && err == nil {
			<-c.done // it writes to dst
			return &Fault{Library: l.cfg.Path, Doing: doing, Problem: oneLine(why.Error()), Err: why}
		}
	}
	return err
}

// Train does task.Steps inner steps. When ctx ends, it asks the library to end its run, and does
// not wait for that for long.
func (l *library) Train(ctx context.Context, task trainer.Task) (stats trainer.Stats, err error) {
	if !slices.Contains(task.Members, task.Self) || task.Steps < 1 {
		return stats, l.errorf("run: a task of %d steps for %s among %v", task.Steps, task.Self, task.Members)
	}
	doing := fmt.Sprintf("run for slot %d", task.Slot)
	look := func(steps uint64) { task.Report(int(min(steps, uint64(task.Steps)))) }
	err = l.cancellable(ctx, doing, look, func() error {
		defer l.passes(task)()
		l.h.stats = C.p2pdiloco_trainer_stats{size: C.sizeof_p2pdiloco_trainer_stats}
		if err := l.must(doing, l.host(C.HOST_RUN, 0, 0, nil)); err != nil {
			return err
		}
		if problem := l.checkStats(task.Steps); problem != "" {
			return l.faulty(doing, "%s", problem)
		}
		return nil
	})
	if err != nil {
		return stats, err
	}
	s := &l.h.stats
	if stats.GradNorm = float64(s.gradient_norm); !(stats.GradNorm >= 0) || math.IsInf(stats.GradNorm, 0) {
		stats.GradNorm = 0 // of a step that loss scaling skipped: it counts as unknown
	}
	stats.Steps, stats.Samples, stats.Tokens = int(s.steps), uint64(s.samples), uint64(s.tokens)
	stats.Loss, stats.Elapsed = float64(s.loss), time.Duration(float64(s.seconds)*float64(time.Second))
	return stats, nil
}

// passes puts a task into C's memory, until it is freed.
func (l *library) passes(task trainer.Task) (free func()) {
	atomic.StoreUint64((*uint64)(&l.h.steps), 0)
	texts := make([]string, len(task.Members))
	for i, id := range task.Members {
		texts[i] = id.String()
	}
	ids, n := C.CString(strings.Join(texts, "\x00")), len(texts)
	list := (**C.char)(C.calloc(C.size_t(n), C.size_t(unsafe.Sizeof(ids))))
	at, members := unsafe.Pointer(ids), unsafe.Slice(list, n)
	for i := range members {
		members[i], at = (*C.char)(at), unsafe.Add(at, len(texts[i])+1)
	}
	l.h.task = C.p2pdiloco_trainer_task{
		size: C.sizeof_p2pdiloco_trainer_task, slot: C.uint64_t(task.Slot), steps: C.uint64_t(task.Steps),
		seed: C.uint64_t(task.Seed), rank: C.uint32_t(slices.Index(task.Members, task.Self)),
		member_count: C.uint32_t(n), members: list, part: C.uint64_t(task.Part),
		steps_done: &l.h.steps, part_steps: C.uint64_t(task.PartSteps),
		done: C.uint64_t(task.Done), step: C.uint64_t(task.Step), total_steps: C.uint64_t(task.TotalSteps),
	}
	return func() {
		C.free(unsafe.Pointer(ids))
		C.free(unsafe.Pointer(list))
	}
}

// checkStats says which of a run's statistics cannot be.
func (l *library) checkStats(asked int) string {
	s := &l.h.stats
	switch loss, seconds := float64(s.loss), float64(s.seconds); {
	case s.steps == 0 || uint64(s.steps) > uint64(asked):
		return fmt.Sprintf("it says that it did %d steps of %d: stats->steps must be those done", s.steps, asked)
	case s.tokens == 0:
		return "it says that it processed no tokens: stats->tokens is the contribution's weight, and must be above 0 " +
			"(samples will do)"
	case math.IsNaN(loss) || math.IsInf(loss, 0):
		return fmt.Sprintf("the training loss is %v: training diverged, take a lower learning rate", loss)
	case !(seconds >= 0 && seconds < 4e9):
		return fmt.Sprintf("it says that it took %v seconds: stats->seconds must be the time of the steps", seconds)
	}
	return ""
}

// Evaluate measures the held-out loss, in nats per token.
func (l *library) Evaluate(ctx context.Context) (loss float64, err error) {
	if !l.about.Evaluates {
		return 0, errors.ErrUnsupported
	}
	err = l.cancellable(ctx, "evaluate", nil, func() error {
		if err := l.must("evaluate", l.host(C.HOST_EVALUATE, 0, 0, nil)); err != nil {
			return err
		}
		if loss := float64(l.h.loss); math.IsNaN(loss) || math.IsInf(loss, 0) {
			f := l.faulty("evaluate", "the held-out loss is %v: training diverged, take a lower learning rate", loss)
			f.stands = true
			return f
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return float64(l.h.loss), nil
}

// Save writes the inner optimizer's state and the data position to a file. It does not wait long
// for a call whose caller has stopped waiting.
func (l *library) Save(ctx context.Context, path string) error {
	return l.file(ctx, "save", C.HOST_SAVE, path)
}

// Restore reads what Save wrote.
func (l *library) Restore(ctx context.Context, path string) error {
	return l.file(ctx, "restore", C.HOST_RESTORE, path)
}

func (l *library) file(ctx context.Context, doing string, f C.enum_host_function, path string) error {
	if !l.about.Saves {
		return errors.ErrUnsupported
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return l.errorf("%s: %w", doing, err)
	}
	soon, stop := context.WithTimeout(ctx, min(saveAfter, l.cfg.Timeout))
	defer stop()
	err = l.call(soon, doing, func() error {
		text := C.CString(path)
		defer C.free(unsafe.Pointer(text))
		err := l.must(doing, l.host(f, 0, 0, unsafe.Pointer(text)))
		if fault, ok := errors.AsType[*Fault](err); ok {
			fault.stands = true
		}
		return err
	})
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return l.errorf("%s: the call before has not ended", doing)
	}
	return err
}

func (l *library) usable() error {
	if l.closed {
		return l.errorf("closed: %w", net.ErrClosed)
	}
	return l.fault
}

func (l *library) errorf(format string, args ...any) error {
	return fmt.Errorf("%s: %w", l.cfg.Path, fmt.Errorf(format, args...))
}
