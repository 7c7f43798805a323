package plugin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/p2pdiloco/p2pdiloco/internal/machine"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// Open loads a library in a process of its own and makes a trainer with it. ctx bounds only Open.
// An error of the library is a *Fault.
func Open(ctx context.Context, cfg Config) (*Trainer, error) {
	cfg = cfg.withDefaults()
	if err := checkHost(); err != nil {
		return nil, fmt.Errorf("%s: %w", cfg.Path, err)
	}
	if err := checkConfig(cfg); err != nil {
		return nil, err
	}
	t := &Trainer{cfg: cfg, turns: newTurns(cfg.Path)}
	err := t.begin(ctx)
	if err != nil {
		t.turns.failed = true // an error of Close would say nothing new
		if ctx.Err() != nil && t.turns.host != nil {
			t.turns.host.kill() // a create may take minutes, and nothing is lost yet
		}
		_ = t.Close()
		return nil, err
	}
	cfg.Logger.Info("trainer loaded", "library", cfg.Path, "name", t.about.Name, "tensors", len(t.layout), "elements",
		t.layout.Elements(),
		"types", t.about.Types, "evaluates", t.about.Evaluates, "saves", t.about.Saves, "pid",
		t.turns.host.cmd.Process.Pid)
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

// begin starts the process and makes the first calls of a trainer.
func (t *Trainer) begin(ctx context.Context) (err error) {
	if err = t.makeDataDir(); err != nil {
		return err
	}
	if t.memory, err = newMemory(); err != nil {
		return err
	}
	p, err := startProcess(t.cfg, t.memory.file)
	if err != nil {
		return err
	}
	t.turns.host = newHost(p, t.cfg)
	for _, step := range []func(context.Context) error{t.openLibrary, t.create, t.readLayout, t.share} {
		if err = step(ctx); err != nil {
			return err
		}
	}
	return nil
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

func (t *Trainer) openLibrary(ctx context.Context) error {
	// dlopen would look for a bare name among the system's libraries
	path, err := filepath.Abs(t.cfg.Path)
	if err != nil {
		return err
	}
	if _, err := t.ask(ctx, opOpen, "load", path); err != nil {
		return err
	}
	r, err := t.ask(ctx, opEntry, "p2pdiloco_trainer_entry", "")
	if err != nil {
		return err
	}
	if len(r.payload) < 4 {
		return errGarbled
	}
	can := native.Uint32(r.payload)
	t.about = About{
		Name: oneLine(string(r.payload[4:])), ExportsGradient: can&canExportGradient != 0,
		Evaluates: can&canEvaluate != 0, Saves: can&canSave != 0,
	}
	return nil
}

func (t *Trainer) create(ctx context.Context) error {
	_, err := t.ask(ctx, opCreate, "create", t.cfg.Config+"\x00"+t.cfg.DataDir+"\x00")
	return err
}

func (t *Trainer) readLayout(ctx context.Context) error {
	r, err := t.ask(ctx, opLayout, "layout", "")
	if err != nil {
		return err
	}
	layout, types, err := parseLayout(r.payload)
	if err == nil {
		err = machine.Holds(layout.Elements())
	}
	if err != nil {
		return t.turns.host.fault(&call{doing: "layout"}, oneLine(err.Error()), err)
	}
	t.layout, t.about.Types = layout, countTypes(types)
	return nil
}

// ask makes a call that a text goes with.
func (t *Trainer) ask(ctx context.Context, o op, doing, payload string) (reply, error) {
	return t.turns.do(ctx, &call{request: request{op: o, payload: payload}, doing: doing}, watchers{})
}

// countTypes counts types, like "14 f32, 2 bf16".
func countTypes(types []string) string {
	number := make(map[string]int)
	for _, t := range types {
		number[t]++
	}
	var parts []string
	for _, name := range []string{"f32", "bf16", "f16"} {
		if n := number[name]; n > 0 {
			parts = append(parts, fmt.Sprint(n, " ", name))
		}
	}
	return strings.Join(parts, ", ")
}

// share maps the vectors, once their length is known.
func (t *Trainer) share(ctx context.Context) error {
	d := t.layout.Elements()
	if err := t.memory.size(d); err != nil {
		return err
	}
	start, local, total := offsets(d)
	c := &call{
		request: request{op: opShare, arg: [requestArgs]uint64{total, start, local, d}},
		doing:   "register_memory",
	}
	_, err := t.turns.do(ctx, c, watchers{})
	return err
}

// About describes a library, in its own words.
type About struct {
	Name            string // of the trainer and its version
	Types           string // of the live tensors, like "14 f32, 2 bf16"
	ExportsGradient bool   // it computes the pseudo-gradient itself, perhaps on the device
	Evaluates       bool   // it measures the held-out loss
	Saves           bool   // it can save and restore its private state
}

// About describes the library, in its own words.
func (t *Trainer) About() About { return t.about }

// Layout lists the model's tensors in flat order.
func (t *Trainer) Layout() trainer.Layout { return t.layout }
