package cgo

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"path/filepath"
	"strconv"
	"time"

	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// CheckConfig says what to test.
type CheckConfig struct {
	// Library is the library to test. Each trainer that is made with it gets a folder of its own
	// below its DataDir, or a temporary one.
	Library Config
	// Against are trainers to compare with it, tensor by tensor.
	Against []Other
	// Steps are the inner steps of a round; default 4.
	Steps int
	// A tensor is alike in two libraries if no element differs by more than Absolute, or the
	// difference is at most Relative of how far the tensor has moved (L2). Defaults 1e-6 and 0.01.
	Absolute, Relative float64
	// CancelWithin is how soon a cancelled run must end; default 30 s.
	CancelWithin time.Duration
	// Tell is called with each line as soon as there is one. It may be nil.
	Tell func(CheckLine)
}

// Other is a trainer to compare with.
type Other struct {
	Name string // as it is told
	Open func(context.Context) (trainer.Trainer, error)
}

func (c CheckConfig) withDefaults() CheckConfig {
	if c.Steps < 1 {
		c.Steps = 4
	}
	if c.Absolute == 0 {
		c.Absolute = 1e-6
	}
	if c.Relative == 0 {
		c.Relative = 0.01
	}
	if c.CancelWithin == 0 {
		c.CancelWithin = 30 * time.Second
	}
	if c.Tell == nil {
		c.Tell = func(CheckLine) {}
	}
	return c
}

// Verdict is the outcome of a check.
type Verdict string

// Verdicts.
const (
	OK      Verdict = "ok"
	Failed  Verdict = "failed"
	Note    Verdict = "note"    // not forbidden, but worth knowing
	Skipped Verdict = "skipped" // the library does not offer it
)

// CheckLine is one check.
type CheckLine struct {
	Check   string  `json:"check"`
	Verdict Verdict `json:"verdict"`
	Detail  string  `json:"detail"`
}

func (l CheckLine) String() string { return fmt.Sprintf("%-7s %-16s %s", l.Verdict, l.Check, l.Detail) }

// CheckReport has the outcome of all checks.
type CheckReport struct {
	Library     string       `json:"library"`
	Name        string       `json:"name"`
	Tensors     int          `json:"tensors"`
	Parameters  uint64       `json:"parameters"`
	OK          bool         `json:"ok"`
	Lines       []CheckLine  `json:"checks"`
	Comparisons []Comparison `json:"comparisons,omitempty"`
	// Init and Rounds are digests of the initial parameters, and of those after two rounds: another
	// process computes the same.
	Init   string `json:"init,omitempty"`
	Rounds string `json:"rounds,omitempty"`
}

// checker is one run of the checks.
type checker struct {
	ctx    context.Context //nolint:containedctx // that of CheckLibrary
	cfg    CheckConfig
	report CheckReport
	name   string    // of the check under way
	start  []float32 // initial parameters
	exact  bool      // all live tensors are float32, so nothing may be rounded

	made   int       // trainers
	before float64   // the held-out loss of the initial parameters
	params []float32 // after a round from the initial ones
}

// CheckLibrary tests the library. It returns an error of ctx, not of a check. What crashes or hangs
// ends the process.
func CheckLibrary(ctx context.Context, cfg CheckConfig) (CheckReport, error) {
	c := &checker{ctx: ctx, cfg: cfg.withDefaults(), name: "open"}
	c.report = CheckReport{Library: cfg.Library.Path, OK: true}
	if p, err := c.open(c.cfg.Library); !c.failed("open", err) {
		c.one(p)
		if c.end(p) {
			c.line("destroy", OK, "it ended as it should")
		}
	}
	for _, other := range c.cfg.Against {
		if c.start == nil {
			break // without parameters there is nothing to test
		}
		c.name = "against " + other.Name
		c.failed(c.name, c.against(other))
	}
	return c.report, ctx.Err()
}

// open makes a trainer.
func (c *checker) open(cfg Config) (Library, error) {
	if c.made++; cfg.DataDir != "" {
		cfg.DataDir = filepath.Join(cfg.DataDir, strconv.Itoa(c.made))
	}
	return Open(c.ctx, cfg)
}

func digest(v ...[]float32) string {
	h := fnv.New64a()
	for _, part := range v {
		_ = binary.Write(h, binary.LittleEndian, part) // a hash takes all
	}
	return fmt.Sprintf("%016x", h.Sum64())
}

// one runs the checks of one library, until an error shows that the rest cannot work.
func (c *checker) one(p Library) {
	for _, check := range []struct {
		name string
		do   func(Library) error
	}{
		{"open", c.describe},
		{"init", c.initial},
		{"load, export", c.roundTrip},
		{"ranges", c.ranges},
		{"run", c.round},
		{"export_gradient", c.gradient},
		{"evaluate", c.evaluate},
		{"cancel", c.cancel},
		{"save, restore", c.continues},
	} {
		if c.name = check.name; c.ctx.Err() != nil || c.failed(c.name, check.do(p)) {
			return
		}
	}
}

func (c *checker) line(check string, v Verdict, format string, args ...any) {
	l := CheckLine{check, v, fmt.Sprintf(format, args...)}
	if v == Failed {
		c.report.OK = false
	}
	c.report.Lines = append(c.report.Lines, l)
	c.cfg.Tell(l)
}

// tell reports of the check under way.
func (c *checker) tell(v Verdict, format string, args ...any) { c.line(c.name, v, format, args...) }

// failed says whether there is an error, and reports it, unless ctx has ended.
func (c *checker) failed(check string, err error) bool {
	if err != nil && c.ctx.Err() == nil {
		c.line(check, Failed, "%v", err)
	}
	return err != nil
}

// end closes a library, and reports whether it ended as it should.
func (c *checker) end(p Library) bool { return !c.failed("destroy", p.Close()) }

// train does a round from given parameters, and exports the new ones.
func (c *checker) train(p trainer.Trainer, slot uint64, from, to []float32) (trainer.Stats, error) {
	if err := p.Load(c.ctx, from); err != nil {
		return trainer.Stats{}, err
	}
	stats, err := p.Train(c.ctx, c.task(slot, c.cfg.Steps))
	if err != nil {
		return stats, err
	}
	return stats, p.Export(c.ctx, to)
}

// task is a round of a peer that trains alone.
func (c *checker) task(slot uint64, steps int) trainer.Task {
	const self = trainer.PeerID("trainer-check")
	return trainer.Task{
		Slot: slot, Steps: steps, Seed: c.cfg.Library.Seed, Self: self, Members: []trainer.PeerID{self}, Part: slot,
		PartSteps: c.cfg.Steps, Step: (slot - 1) * uint64(c.cfg.Steps), TotalSteps: 1 << 20,
	}
}
