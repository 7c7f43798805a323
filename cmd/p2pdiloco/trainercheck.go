package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/spf13/cobra"

	"github.com/p2pdiloco/p2pdiloco/bridge/builtin"
	"github.com/p2pdiloco/p2pdiloco/bridge/cgo"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// checkFlags are the command line of trainer-check.
type checkFlags struct {
	config        string
	against       []string
	againstConfig string
	steps         int
	seed          uint64
	absolute      float64
	relative      float64
	timeout       time.Duration
	json          bool
}

func newTrainerCheck() *cobra.Command {
	f := &checkFlags{}
	cmd := &cobra.Command{
		Use:   "trainer-check LIBRARY",
		Short: "Try a trainer from a shared library, and compare it with others",
		Long: `Try a shared library against what bridge/include/p2pdiloco_trainer.h asks of a trainer: that it
loads, that initial parameters follow from the seed, that what is loaded is what is exported,
whole and by ranges, that inner steps say how far they are and can be cancelled, that the
pseudo-gradient is what was loaded less what the parameters are, that its private state can be
saved and restored, and that it ends as it should. One line is printed for each. The library
runs in a process of its own: where it crashes or hangs, the call is named.

With --against, other trainers do the same inner steps from the same parameters, and are
compared tensor by tensor: libraries, or builtin:gpt with the keys of --trainer-config that it
has (layers, width, ..., data). The exit status is 1 if anything failed.`,
		Example: `  p2pdiloco trainer-check ./libmytrainer.so --trainer-config my.txt
  p2pdiloco trainer-check ./libp2pdiloco_cuda.so --trainer-config gpt.txt --against builtin:gpt --relative 0.05`,
		Args: cli.Args,
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&f.config, "trainer-config", "", "`file` whose text the trainer is made from")
	fs.StringArrayVar(&f.against, "against", nil, "`library` to compare with, or builtin:gpt; may be repeated")
	fs.StringVar(&f.againstConfig, "against-config", "",
		"`file` whose text those are made from (default the one of --trainer-config)")
	fs.IntVar(&f.steps, "steps", 4, "inner steps of a round")
	fs.Uint64Var(&f.seed, "seed", 0, "of the initial parameters and of the data's division")
	fs.Float64Var(&f.absolute, "absolute", 1e-6, "tensors are alike if no element differs by more than this")
	fs.Float64Var(&f.relative, "relative", 0.01,
		"tensors are also alike if they differ (L2) by at most this part of how far the tensor has moved")
	fs.DurationVar(&f.timeout, "trainer-timeout", cgo.DefaultTimeout,
		"how long a trainer may make no progress before it counts as hung")
	fs.BoolVar(&f.json, "json", false, "print one JSON document at the end, everything else to stderr")
	return cmd
}

// A check's process is this program again, with a variable that has the folder of its trainers. It
// tells what it finds through descriptor 3.
const checkVariable = "P2PDILOCO_TRAINER_CHECK"

// found is what a check's process tells.
type found struct {
	Line   *cgo.CheckLine   `json:"line,omitempty"`
	Report *cgo.CheckReport `json:"report,omitempty"`
}

func (f *checkFlags) run(cmd *cobra.Command, library string) error {
	cfg, err := f.settings(library)
	if err != nil {
		return err
	}
	ctx, stop := cli.OrExit(cmd.Context())
	defer stop()
	if cfg.Library.DataDir = os.Getenv(checkVariable); cfg.Library.DataDir != "" {
		return checkHere(ctx, cfg)
	}
	lines := cli.Progress(cmd, f.json)
	r, err := checkTwice(ctx, cmd.ErrOrStderr(), func(l cgo.CheckLine) { fmt.Fprintln(lines, l) })
	if ctx.Err() != nil {
		return cli.ErrInterrupted
	}
	r.Library = library
	if err == nil && f.json {
		err = json.NewEncoder(cmd.OutOrStdout()).Encode(r)
	}
	if err == nil && !r.OK {
		err = fmt.Errorf("%s failed some checks: see the lines that start with failed", library)
	}
	return err
}

// checkHere is a check's process.
func checkHere(ctx context.Context, cfg cgo.CheckConfig) error {
	out := json.NewEncoder(os.NewFile(3, "what was found"))
	cfg.Tell = func(l cgo.CheckLine) { _ = out.Encode(found{Line: &l}) }
	r, err := cgo.CheckLibrary(ctx, cfg)
	if err != nil {
		return cli.ErrInterrupted
	}
	return out.Encode(found{Report: &r})
}

// checkTwice has one process do all checks, and a second one compute the same again.
func checkTwice(ctx context.Context, stderr io.Writer, tell func(cgo.CheckLine)) (cgo.CheckReport, error) {
	r, err := checkProcess(ctx, stderr, tell)
	if err != nil || !r.OK || ctx.Err() != nil {
		return r, err
	}
	again, err := checkProcess(ctx, stderr, func(cgo.CheckLine) {})
	if err != nil || ctx.Err() != nil {
		return r, err
	}
	l := cgo.CheckLine{Check: "another process", Verdict: cgo.OK, Detail: "the same initial parameters and rounds"}
	switch {
	case !again.OK:
		l.Verdict, l.Detail = cgo.Failed, "it failed there: "+again.Lines[len(again.Lines)-1].String()
	case again.Init != r.Init:
		l.Verdict, l.Detail = cgo.Failed, "other initial parameters from the same seed"
	case again.Rounds != r.Rounds:
		l.Verdict, l.Detail = cgo.Note, "the same initial parameters, and other rounds from them"
	}
	tell(l)
	r.Lines, r.OK = append(r.Lines, l), l.Verdict != cgo.Failed
	return r, nil
}

// checkProcess does the checks in a process of its own. Where that ends before it has reported, the
// call in which it did is a check that failed.
func checkProcess(ctx context.Context, stderr io.Writer, tell func(cgo.CheckLine)) (r cgo.CheckReport, err error) {
	dir, err := os.MkdirTemp("", "p2pdiloco-check-")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is a temporary folder
	in, out, err := os.Pipe()
	if err != nil {
		return r, err
	}
	defer in.Close()
	exe, err := os.Executable()
	child := exec.CommandContext(ctx, exe, os.Args[1:]...)
	child.Cancel = func() error { return child.Process.Signal(os.Interrupt) }
	child.WaitDelay = time.Minute
	child.Env = append(os.Environ(), checkVariable+"="+dir)
	child.Stdout, child.Stderr, child.ExtraFiles = stderr, stderr, []*os.File{out}
	err = errors.Join(err, child.Start(), out.Close())
	if err != nil {
		return r, err
	}
	read := make(chan struct{})
	reported := false
	go func() { // the library may write there, too, and what it has started may hold it open
		defer close(read)
		for lines := bufio.NewReader(in); ; {
			text, err := lines.ReadBytes('\n')
			var f found
			switch {
			case err != nil:
				return
			case json.Unmarshal(text, &f) != nil:
			case f.Line != nil:
				tell(*f.Line)
				r.Lines = append(r.Lines, *f.Line)
			case f.Report != nil:
				r, reported = *f.Report, true
			}
		}
	}()
	_ = child.Wait() // its state says more
	_ = in.SetReadDeadline(time.Now().Add(time.Second))
	<-read
	if !reported && ctx.Err() == nil {
		l := cgo.CheckLine{
			Check: cmp.Or(cgo.LastCall(dir), "between two calls"), Verdict: cgo.Failed,
			Detail: fmt.Sprintf("it ended the process (%v): what it printed stands above", child.ProcessState),
		}
		tell(l)
		r.Lines = append(r.Lines, l)
	}
	return r, nil
}

func (f *checkFlags) settings(library string) (cfg cgo.CheckConfig, err error) {
	if f.steps < 1 || !(f.absolute >= 0) || !(f.relative >= 0) || f.timeout <= 0 {
		return cfg, cli.UsageError(errors.New("--steps must be at least 1, --trainer-timeout above 0, and --absolute " +
			"and --relative 0 or more"))
	}
	mine, err := cli.ReadText("trainer-config", f.config)
	if err != nil {
		return cfg, err
	}
	theirs := mine
	if f.againstConfig != "" {
		if theirs, err = cli.ReadText("against-config", f.againstConfig); err != nil {
			return cfg, err
		}
	}
	at := func(path, text string) cgo.Config {
		return cgo.Config{Path: path, Config: text, Seed: f.seed, Timeout: f.timeout}
	}
	cfg = cgo.CheckConfig{Library: at(library, mine), Steps: f.steps, Absolute: f.absolute, Relative: f.relative}
	for _, name := range f.against {
		other := cgo.Other{Name: name, Open: func(ctx context.Context) (trainer.Trainer, error) {
			return cgo.Open(ctx, at(name, theirs))
		}}
		if name == "builtin:gpt" {
			gpt, corpus, err := builtin.ParseConfig(theirs)
			if err != nil {
				return cfg, cli.UsageError(fmt.Errorf("--against builtin:gpt: %w", err))
			}
			gpt.Seed = f.seed
			other.Open = func(ctx context.Context) (trainer.Trainer, error) {
				data, err := builtin.OpenCorpus(ctx, corpus)
				if err != nil {
					return nil, err
				}
				return builtin.New(gpt, data)
			}
		}
		cfg.Against = append(cfg.Against, other)
	}
	return cfg, nil
}
