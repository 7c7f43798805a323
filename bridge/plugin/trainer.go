package plugin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/p2pdiloco/p2pdiloco/bridge/attach"
	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// Trainer is a trainer library in a process of its own. It implements trainer.Trainer and the
// optional interfaces but Returner: a library that has crashed ends the peer's part in the run. A
// method that the library cannot do returns errors.ErrUnsupported. Its methods, but StepsDone, are
// for one goroutine at a time.
type Trainer struct {
	cfg       Config
	temporary bool // the data directory
	server    *attach.Server
	note      *os.File
	process   *process
	watch     sync.WaitGroup  // until the process has ended
	ranks     *attach.Trainer // the host is the only one
	about     About

	given bool  // the shared vectors went to a node
	steps int   // of the newest task
	fault error // the trainer has failed; every later call returns it

	closed   bool
	closeErr error
}

var (
	_ trainer.Trainer          = (*Trainer)(nil)
	_ trainer.Evaluator        = (*Trainer)(nil)
	_ trainer.Saver            = (*Trainer)(nil)
	_ trainer.GradientExporter = (*Trainer)(nil)
	_ trainer.VectorMaker      = (*Trainer)(nil)
	_ trainer.MemorySharer     = (*Trainer)(nil)
	_ trainer.RangeTrainer     = (*Trainer)(nil)
)

// About describes the library, in its own words.
func (t *Trainer) About() About { return t.about }

// Layout lists the model's tensors in flat order.
func (t *Trainer) Layout() trainer.Layout { return t.ranks.Layout() }

// call makes a call, and says what went wrong in it.
func (t *Trainer) call(ctx context.Context, do func() error) error {
	if err := t.usable(); err != nil {
		return err
	}
	err := do()
	var own *Fault
	var rank *attach.RankError
	switch {
	case err == nil || ctx.Err() != nil || errors.Is(err, errors.ErrUnsupported) || errors.As(err, &own):
		return err
	case errors.Is(err, trainer.ErrAnew):
		t.fault = t.why(err)
		return t.fault
	case errors.As(err, &rank):
		return t.failed(rank)
	}
	return err
}

func (t *Trainer) usable() error {
	if t.closed {
		return t.errorf("closed: %w", net.ErrClosed)
	}
	return t.fault
}

func (t *Trainer) errorf(format string, args ...any) error {
	return fmt.Errorf("%s: %w", t.cfg.Path, fmt.Errorf(format, args...))
}

// Init writes the initial parameters, which follow from Config and Seed, into dst.
func (t *Trainer) Init(ctx context.Context, dst []float32) error {
	return t.call(ctx, func() error {
		if err := t.fits("init", dst); err != nil {
			return err
		}
		if err := t.ranks.Fill(ctx, dst); err != nil {
			return err
		}
		return t.finite("init", dst, 0)
	})
}

// Load replaces the live parameters. The inner optimizer's state stays.
func (t *Trainer) Load(ctx context.Context, start []float32) error {
	if err := t.fits("load", start); err != nil {
		return err
	}
	return t.LoadRange(ctx, 0, start)
}

// LoadRange replaces the live parameters from element begin on.
func (t *Trainer) LoadRange(ctx context.Context, begin int, src []float32) error {
	return t.call(ctx, func() error {
		if err := t.inside("load", begin, len(src)); err != nil {
			return err
		}
		return t.ranks.LoadRange(ctx, begin, src)
	})
}

// Export writes the live parameters into dst.
func (t *Trainer) Export(ctx context.Context, dst []float32) error {
	if err := t.fits("export", dst); err != nil {
		return err
	}
	return t.ExportRange(ctx, 0, dst)
}

// ExportRange writes the live parameters from element begin on into dst. Its error wraps
// trainer.ErrNotFinite if one is not finite.
func (t *Trainer) ExportRange(ctx context.Context, begin int, dst []float32) error {
	return t.call(ctx, func() error {
		if err := t.inside("export", begin, len(dst)); err != nil {
			return err
		}
		if err := t.ranks.ExportRange(ctx, begin, dst); err != nil {
			return err
		}
		return t.finite("export_params", dst, begin)
	})
}

// GradientRange writes the pseudo-gradient as the library computes it, from element begin on, into
// dst.
func (t *Trainer) GradientRange(ctx context.Context, begin int, dst []float32) error {
	return t.call(ctx, func() error {
		if !t.about.ExportsGradient {
			return errors.ErrUnsupported
		}
		if err := t.inside("export", begin, len(dst)); err != nil {
			return err
		}
		if err := t.ranks.GradientRange(ctx, begin, dst); err != nil {
			return err
		}
		return t.finite("export_gradient", dst, begin)
	})
}

// ExportGradient writes start - parameters into dst: the library subtracts, or its host does if the
// library can't. start is the vector that was loaded last. ready is called for each range of dst
// that is done, while the next one is copied.
func (t *Trainer) ExportGradient(ctx context.Context, start, dst []float32, ready func(begin, end int) error) error {
	return t.call(ctx, func() error {
		if err := t.fits("export", dst); err != nil {
			return err
		}
		return t.ranks.ExportGradient(ctx, start, dst, func(begin, end int) error {
			if err := ready(begin, end); err != nil {
				return &Fault{Library: t.cfg.Path, Doing: "export_gradient", Problem: oneLine(err.Error()), Err: err}
			}
			return nil
		})
	})
}

// Train does task.Steps inner steps. When ctx ends, it asks the library to end its run, and does
// not wait for that for long.
func (t *Trainer) Train(ctx context.Context, task trainer.Task) (stats trainer.Stats, err error) {
	err = t.call(ctx, func() error {
		if !slices.Contains(task.Members, task.Self) || task.Steps < 1 {
			return t.errorf("run: a task of %d steps for %s among %v", task.Steps, task.Self, task.Members)
		}
		t.steps = task.Steps
		stats, err = t.ranks.Train(ctx, task)
		return err
	})
	return stats, err
}

// StepsDone is the number of steps that the library reports of its run, or of its last one. It must
// not be called after Close.
func (t *Trainer) StepsDone() uint64 { return t.ranks.StepsDone() }

// Evaluate measures the held-out loss, in nats per token.
func (t *Trainer) Evaluate(ctx context.Context) (loss float64, err error) {
	err = t.call(ctx, func() error {
		loss, err = t.ranks.Evaluate(ctx)
		return err
	})
	return loss, err
}

// Save writes the inner optimizer's state and the data position to a file. It does not wait long
// for a call whose caller has stopped waiting.
func (t *Trainer) Save(ctx context.Context, path string) error {
	return t.file(ctx, "save", path, func(path, folder, there string) error {
		if err := t.ranks.SaveRanks(ctx, folder); err != nil {
			return err
		}
		return os.Rename(there, path)
	})
}

// Restore reads what Save wrote.
func (t *Trainer) Restore(ctx context.Context, path string) error {
	return t.file(ctx, "restore", path, func(path, folder, there string) error {
		if err := os.Symlink(path, there); err != nil {
			return err
		}
		return t.ranks.RestoreRanks(ctx, folder, 1)
	})
}

// file makes a call with a folder beside a file, in which there is the file of the only rank.
func (t *Trainer) file(ctx context.Context, doing, path string, do func(path, folder, there string) error) error {
	return t.call(ctx, func() error {
		if !t.about.Saves {
			return errors.ErrUnsupported
		}
		path, err := filepath.Abs(path)
		folder := path + ".rank"
		if err == nil {
			// a peer that was killed has left it there
			err = errors.Join(os.RemoveAll(folder), os.Mkdir(folder, 0o700))
		}
		if err == nil {
			err = errors.Join(do(path, folder, filepath.Join(folder, "rank-0")), os.RemoveAll(folder))
		}
		if err != nil {
			return t.errorf("%s: %w", doing, err)
		}
		return nil
	})
}

// MakeVectors gives the first caller the memory that is shared with the library, so that vectors
// need not be copied a second time. That memory lasts until Close. Later callers get ordinary
// memory.
func (t *Trainer) MakeVectors(n int) (start, local []float32, err error) {
	if err := t.usable(); err != nil {
		return nil, nil, err
	}
	if n != int(t.Layout().Elements()) || t.given {
		return make([]float32, n), make([]float32, n), nil
	}
	t.given = true
	return t.ranks.MakeVectors(n)
}

// SharedBytes is the memory that is shared with the library's process.
func (t *Trainer) SharedBytes() uint64 { return t.ranks.SharedBytes() }

// fits refuses a vector that is not of the model's length.
func (t *Trainer) fits(what string, v []float32) error {
	if len(v) != int(t.Layout().Elements()) {
		return t.errorf("%s: a vector of %d elements for one of a model of %d", what, len(v), t.Layout().Elements())
	}
	return nil
}

// inside refuses elements that the model does not have.
func (t *Trainer) inside(what string, begin, count int) error {
	all := int(t.Layout().Elements())
	if begin < 0 || count < 1 || begin > all || count > all-begin {
		return t.errorf("%s: %d elements from %d on of a model of %d", what, count, begin, all)
	}
	return nil
}

// finite refuses a NaN, an infinity or a value that is too large in v. begin is the element of the
// flat vector at which v begins.
func (t *Trainer) finite(doing string, v []float32, begin int) error {
	i := kernel.Bounded(v)
	if i < 0 {
		return nil
	}
	name, first := tensorAt(t.Layout(), begin+i)
	return &Fault{
		Library: t.cfg.Path, Doing: doing, Err: trainer.ErrNotFinite,
		Problem: fmt.Sprintf("element %d (tensor %q, element %d) is %v", begin+i, name, begin+i-first, v[i]),
	}
}

// tensorAt names the tensor that an element of the flat vector belongs to, and where that begins.
func tensorAt(l trainer.Layout, element int) (name string, first int) {
	for _, tensor := range l {
		n := int(tensor.Elements())
		if element < first+n {
			return tensor.Name, first
		}
		first += n
	}
	return "", 0
}
