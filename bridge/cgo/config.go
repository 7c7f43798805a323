package cgo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// DefaultTimeout is how long a trainer may show no progress.
const DefaultTimeout = 10 * time.Minute

// maxConfig bounds the text of a configuration, in bytes.
const maxConfig = 16 << 20

// ErrNoCgo is returned by Open if the program was built without cgo, or for a system without mmap.
var ErrNoCgo = errors.New("this program cannot load trainer libraries")

// Config says which library to load, and how.
type Config struct {
	// Path of the library.
	Path string
	// Config is the text that is passed to the library's create; "{}" if empty.
	Config string
	// Seed is the run's seed. With Config it determines the initial parameters. It matters on the
	// peer that founds the run.
	Seed uint64
	// DataDir is a folder for the trainer's files, which stays; it is made if missing. If it is
	// empty, Open makes a temporary one and Close removes it.
	DataDir string
	// Timeout is how long a call may take, or inner steps may show no progress, until the trainer
	// counts as hung and the process is ended; default DefaultTimeout.
	Timeout time.Duration
	// Logger is silent when nil.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.Config == "" {
		c.Config = "{}"
	}
	if c.Timeout <= 0 {
		c.Timeout = DefaultTimeout
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// check's error wraps fs.ErrNotExist if there is no such library.
func (c Config) check() error {
	info, err := os.Stat(c.Path)
	problem := ""
	switch {
	case errors.Is(err, fs.ErrNotExist):
		problem = "there is no such file: give the path of a trainer's shared library"
	case err != nil:
		problem = err.Error()
	case info.IsDir():
		problem = "this is a folder: give the path of a trainer's shared library"
	case len(c.Config) > maxConfig || strings.ContainsRune(c.Config, 0):
		problem = fmt.Sprintf("a configuration of %d bytes: text of at most %d is allowed", len(c.Config), maxConfig)
	default:
		return nil
	}
	return &Fault{Library: c.Path, Doing: "open", Problem: problem, Err: err}
}

// Library is a trainer from a shared library. A method that the library cannot do returns
// errors.ErrUnsupported. Its methods, but StepsDone, are for one goroutine at a time.
type Library interface {
	trainer.Trainer
	trainer.Evaluator
	trainer.Saver
	trainer.GradientExporter
	trainer.VectorMaker
	trainer.RangeTrainer
	// GradientRange writes the pseudo-gradient as the library computes it, from element begin on,
	// into dst.
	GradientRange(ctx context.Context, begin int, dst []float32) error
	// StepsDone is the number of steps that the library reports of its run, or of its last one. It
	// must not be called after Close.
	StepsDone() uint64
	// About describes the library, in its own words.
	About() About
	// Close destroys the trainer. The node that worked with it must be closed before, because Close
	// unmaps its vectors. A call that does not end although it was cancelled is left alone: then
	// nothing is destroyed.
	Close() error
}

// About describes a library, in its own words.
type About struct {
	Name            string // of the trainer and its version
	Types           string // of the live tensors, like "14 f32, 2 bf16"
	ExportsGradient bool   // it computes the pseudo-gradient itself, perhaps on the device
	Evaluates       bool   // it measures the held-out loss
	Saves           bool   // it can save and restore its private state
}
