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
	"path/filepath"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// libraryTrainer is a Library.
type libraryTrainer struct {
	cfg       Config
	temporary bool // the data directory
	library   unsafe.Pointer
	api       *C.p2pdiloco_trainer_api
	trainer   *C.p2pdiloco_trainer
	about     About
	layout    trainer.Layout

	record    record
	thread    thread
	watches   sync.WaitGroup
	stop      chan struct{} // of watch
	cancelled atomic.Bool   // the newest call was cancelled

	memory     []byte // mapped, with start and local
	registered bool   // with the library
	given      bool   // memory went to a node
	fault      error  // the trainer has failed; every later call returns it

	closed   bool
	closeErr error
}

// About describes the library, in its own words.
func (t *libraryTrainer) About() About { return t.about }

// Layout lists the model's tensors in flat order.
func (t *libraryTrainer) Layout() trainer.Layout { return t.layout }

// Init writes the initial parameters, which follow from Config and Seed, into dst.
func (t *libraryTrainer) Init(ctx context.Context, dst []float32) error {
	if err := t.fits("init", dst); err != nil {
		return err
	}
	return t.call(ctx, "init", func() error {
		if err := t.must("init", C.host_init(t.api, t.trainer, C.uint64_t(t.cfg.Seed), floats(dst))); err != nil {
			return err
		}
		return t.finite("init", dst, 0)
	})
}

// Load replaces the live parameters. The inner optimizer's state stays.
func (t *libraryTrainer) Load(ctx context.Context, start []float32) error {
	if err := t.fits("load", start); err != nil {
		return err
	}
	return t.LoadRange(ctx, 0, start)
}

// LoadRange replaces the live parameters from element begin on.
func (t *libraryTrainer) LoadRange(ctx context.Context, begin int, src []float32) error {
	if err := t.inside("load", begin, len(src)); err != nil {
		return err
	}
	return t.call(ctx, "load", func() error {
		return t.must("load", C.host_load(t.api, t.trainer, C.uint64_t(begin), C.uint64_t(len(src)), floats(src)))
	})
}

// Export writes the live parameters into dst.
func (t *libraryTrainer) Export(ctx context.Context, dst []float32) error {
	if err := t.fits("export", dst); err != nil {
		return err
	}
	return t.ExportRange(ctx, 0, dst)
}

// ExportRange writes the live parameters from element begin on into dst. Its error wraps
// trainer.ErrNotFinite if one is not finite.
func (t *libraryTrainer) ExportRange(ctx context.Context, begin int, dst []float32) error {
	if err := t.inside("export", begin, len(dst)); err != nil {
		return err
	}
	return t.call(ctx, "export_params", func() error {
		if err := t.export("export_params", begin, dst); err != nil {
			return err
		}
		return t.finite("export_params", dst, begin)
	})
}

// export has the library write parameters, or the pseudo-gradient.
func (t *libraryTrainer) export(doing string, begin int, dst []float32) error {
	gradient := C.int(0)
	if doing == "export_gradient" {
		gradient = 1
	}
	at, n := C.uint64_t(begin), C.uint64_t(len(dst))
	return t.must(doing, C.host_export(t.api, t.trainer, gradient, at, n, floats(dst)))
}

// GradientRange writes the pseudo-gradient as the library computes it: what was loaded minus the
// live parameters.
func (t *libraryTrainer) GradientRange(ctx context.Context, begin int, dst []float32) error {
	if !t.about.ExportsGradient {
		return errors.ErrUnsupported
	}
	if err := t.inside("export", begin, len(dst)); err != nil {
		return err
	}
	return t.call(ctx, "export_gradient", func() error {
		if err := t.export("export_gradient", begin, dst); err != nil {
			return err
		}
		return t.finite("export_gradient", dst, begin)
	})
}

func (t *libraryTrainer) beginGradient(ctx context.Context, begin int, start, dst []float32) (*call, error) {
	if t.about.ExportsGradient {
		return t.begin(ctx, "export_gradient", func() error { return t.export("export_gradient", begin, dst) })
	}
	return t.begin(ctx, "export_params", func() error {
		err := t.export("export_params", begin, dst)
		kernel.Sub(dst, start, dst)
		return err
	})
}

// exportStep is the number of elements of one request of ExportGradient. While the library copies
// one range, the node works on the one before.
const exportStep = 4 << 20

// ExportGradient writes start - live parameters. start is the vector that was loaded last. ready is
// called for each range of dst that is done, while the next one is copied.
func (t *libraryTrainer) ExportGradient(ctx context.Context, start, dst []float32,
	ready func(begin, end int) error,
) error {
	if err := t.fits("export", dst); err != nil {
		return err
	}
	next := func(begin int) (*call, error) {
		end := min(begin+exportStep, len(dst))
		return t.beginGradient(ctx, begin, start[begin:end], dst[begin:end])
	}
	c, err := next(0)
	for begin, end := 0, 0; begin < len(dst) && err == nil; begin = end {
		if err = t.wait(c); err != nil {
			return err
		}
		doing := c.doing
		if end = min(begin+exportStep, len(dst)); end < len(dst) {
			if c, err = next(end); err != nil {
				return err
			}
		}
		if why := ready(begin, end); why != nil {
			<-c.done // it writes to dst
			return &Fault{Library: t.cfg.Path, Doing: doing, Problem: oneLine(why.Error()), Err: why}
		}
	}
	return err
}

// Evaluate measures the held-out loss, in nats per token.
func (t *libraryTrainer) Evaluate(ctx context.Context) (loss float64, err error) {
	if !t.about.Evaluates {
		return 0, errors.ErrUnsupported
	}
	err = t.cancellable(ctx, "evaluate", func() error {
		var l C.double
		code := C.host_evaluate(t.api, t.trainer, &l)
		if code == C.P2PDILOCO_TRAINER_CANCELLED && t.cancelled.Load() {
			return context.Canceled
		}
		if err := t.must("evaluate", code); err != nil {
			return err
		}
		if loss = float64(l); math.IsNaN(loss) || math.IsInf(loss, 0) {
			return &Fault{
				Library: t.cfg.Path, Doing: "evaluate", stands: true,
				Problem: fmt.Sprintf("the held-out loss is %v: training diverged, take a lower learning rate", loss),
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return loss, nil
}

// Save writes the inner optimizer's state and the data position to a file. It does not wait long
// for a call whose caller has stopped waiting.
func (t *libraryTrainer) Save(ctx context.Context, path string) error {
	return t.file(ctx, "save", 0, path)
}

// Restore reads what Save wrote.
func (t *libraryTrainer) Restore(ctx context.Context, path string) error {
	return t.file(ctx, "restore", 1, path)
}

func (t *libraryTrainer) file(ctx context.Context, doing string, restore C.int, path string) error {
	if !t.about.Saves {
		return errors.ErrUnsupported
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return t.errorf("%s: %w", doing, err)
	}
	soon, stop := context.WithTimeout(ctx, min(saveAfter, t.cfg.Timeout))
	defer stop()
	c, err := t.begin(soon, doing, func() error {
		text := C.CString(path)
		defer C.free(unsafe.Pointer(text))
		if code := C.host_file(t.api, t.trainer, restore, text); code != C.P2PDILOCO_TRAINER_OK {
			return &Fault{Library: t.cfg.Path, Doing: doing, Problem: t.reason(), stands: true}
		}
		return nil
	})
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return t.errorf("%s: the call before has not ended", doing)
	}
	if err != nil {
		return err
	}
	return t.wait(c)
}

func (t *libraryTrainer) cancel() { C.host_cancel(t.api, t.trainer) }

// fits refuses a vector that is not of the model's length.
func (t *libraryTrainer) fits(what string, v []float32) error {
	if len(v) != int(t.layout.Elements()) {
		return t.errorf("%s: a vector of %d elements for one of a model of %d", what, len(v), t.layout.Elements())
	}
	return nil
}

// inside refuses elements that the model does not have.
func (t *libraryTrainer) inside(what string, begin, count int) error {
	all := int(t.layout.Elements())
	if begin < 0 || count < 1 || begin > all || count > all-begin {
		return t.errorf("%s: %d elements from %d on of a model of %d", what, count, begin, all)
	}
	return nil
}

func floats(v []float32) *C.float { return (*C.float)(unsafe.Pointer(unsafe.SliceData(v))) }
