package plugin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/p2pdiloco/p2pdiloco/bridge/attach"
)

// exportStep is the number of elements of one request. While the library copies one range, the node
// works on the one before.
const exportStep = 4 << 20

// Open loads a library in a process of its own and makes a trainer with it, for which it has
// Config.Timeout. ctx bounds only Open. An error of the library is a *Fault.
func Open(ctx context.Context, cfg Config) (*Trainer, error) {
	cfg = cfg.withDefaults()
	if err := checkHost(); err != nil {
		return nil, fmt.Errorf("%s: %w", cfg.Path, err)
	}
	if err := checkConfig(cfg); err != nil {
		return nil, err
	}
	t := &Trainer{cfg: cfg}
	if err := t.begin(ctx); err != nil {
		t.fault = err // Close has nothing to add
		if t.process != nil {
			t.process.kill() // a create may take minutes, and nothing is lost yet
		}
		_ = t.Close()
		return nil, err
	}
	layout := t.Layout()
	cfg.Logger.Info("trainer loaded", "library", cfg.Path, "name", t.about.Name, "tensors", len(layout), "elements",
		layout.Elements(), "types", t.about.Types, "evaluates", t.about.Evaluates, "saves", t.about.Saves, "pid",
		t.process.cmd.Process.Pid)
	return t, nil
}

// checkConfig checks the configuration. Its error wraps fs.ErrNotExist if there is no such library.
func checkConfig(cfg Config) error {
	info, err := os.Stat(cfg.Path)
	problem := ""
	switch {
	case errors.Is(err, fs.ErrNotExist):
		problem = "there is no such file: give the path of a trainer's shared library"
	case err != nil:
		problem = err.Error()
	case info.IsDir():
		problem = "this is a folder: give the path of a trainer's shared library"
	case len(cfg.Config) > maxConfig || strings.ContainsRune(cfg.Config, 0):
		problem = fmt.Sprintf("a configuration of %d bytes: text of at most %d is allowed", len(cfg.Config), maxConfig)
	default:
		return nil
	}
	return &Fault{Library: cfg.Path, Doing: "open", Problem: problem, Err: err}
}

// begin listens, starts the host, and waits until it has attached.
func (t *Trainer) begin(ctx context.Context) (err error) {
	if err = t.makeDataDir(); err != nil {
		return err
	}
	t.server, err = attach.Listen(attach.Config{
		DataDir: t.cfg.DataDir, Timeout: t.cfg.Timeout, ExportStep: exportStep, WriteStart: true,
	})
	if err != nil {
		return err
	}
	// dlopen would look for a bare name among the system's libraries
	library, err := filepath.Abs(t.cfg.Path)
	if err != nil {
		return err
	}
	if t.note, err = newNote(t.cfg, library, t.server.Path()); err != nil {
		return fmt.Errorf("the trainer's folder: %w", err)
	}
	if t.process, err = startProcess(t.cfg, t.note); err != nil {
		return fmt.Errorf("the trainer's process: %w", err)
	}
	if err = t.attached(ctx); err != nil {
		return err
	}
	n, err := readNote(t.note)
	t.about = n.about()
	return err
}

// attached waits for the host.
func (t *Trainer) attached(ctx context.Context) (err error) {
	waits, stop := context.WithTimeout(ctx, t.cfg.Timeout)
	defer stop()
	t.watch.Go(func() {
		<-t.process.exited
		stop()
		// a process that it has started may still have its socket
		t.server.Lost("its process has ended")
	})
	t.ranks, err = t.server.Trainer(waits)
	switch {
	case err == nil || ctx.Err() != nil:
		return err
	case errors.Is(waits.Err(), context.DeadlineExceeded):
		return t.hung()
	}
	return t.lost()
}

func (t *Trainer) makeDataDir() (err error) {
	if t.cfg.DataDir == "" {
		t.temporary = true
		t.cfg.DataDir, err = os.MkdirTemp("", "p2pdiloco-trainer-")
	} else if t.cfg.DataDir, err = filepath.Abs(t.cfg.DataDir); err == nil {
		err = os.MkdirAll(t.cfg.DataDir, 0o700)
	}
	if err != nil {
		return fmt.Errorf("the trainer's folder: %w", err)
	}
	return nil
}
