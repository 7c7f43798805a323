package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/cmd/p2pdiloco/internal/demo"
	"github.com/p2pdiloco/p2pdiloco/cmd/p2pdiloco/internal/swarm"
	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
)

// demoCurve is the name of the picture.
const demoCurve = "p2pdiloco-loss.png"

// demoFlags are the command line of demo.
type demoFlags struct {
	cfg        demo.Config
	mode       sources.OneOf
	pace       sources.OneOf
	aggregator sources.OneOf
	codec      sources.OneOf
	events     string
	keepDir    string
	json       bool
}

func newDemo() *cobra.Command {
	f := &demoFlags{
		mode:       sources.OneOf{Value: p2pdiloco.ModeSync, Allowed: demo.Modes, Kind: "how"},
		pace:       sources.OneOf{Allowed: demo.Paces, Kind: "how"},
		aggregator: sources.OneOf{Value: "trimmed_mean", Allowed: demo.Aggregators, Kind: "how"},
		codec:      sources.OneOf{Value: demo.DefaultCodec, Allowed: p2pdiloco.Codecs(), Kind: "how"},
	}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run a whole swarm on this machine, to see it work",
		Long: `Run a whole swarm on this machine: a bootstrap node and some peers, each a process of its own.
The peers get nothing but the bootstrap node's address. They find each other through the DHT,
train a small language model on real text, combine what they learnt with a robust mean, agree on
every step, and end with bit-identical parameters. It takes about two minutes on two cores.

The exit status is 0 only if all peers finished with equal state roots and the loss fell.`,
		Example: `  p2pdiloco demo
  p2pdiloco demo --peers 6 --aggregator median --data ~/books --keep-dir /tmp/demo
  p2pdiloco demo --json 2>demo.log | jq .identical`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.IntVar(&f.cfg.Peers, "peers", 4, "peers to start")
	fs.Uint64Var(&f.cfg.Rounds, "rounds", 8, "rounds to train")
	fs.Uint64Var(&f.cfg.InnerSteps, "inner-steps", 25, "training steps of a peer between two rounds")
	fs.Var(&f.mode, "mode", "how rounds follow each other: sync; delayed or eager, in which the reduction runs beside the next inner steps; streaming, in which parts of the model take turns; or async, eager without waiting for who is slow")
	fs.Uint64Var(&f.cfg.Fragments, "fragments", 0, "parts of the model that take turns, in mode streaming (default 4)")
	fs.StringVar(&f.cfg.Delay, "fragment-delay", "", "inner `steps` after which a part that was sent off lands again, in mode streaming (default a tenth of the inner steps)")
	fs.StringVar(&f.cfg.Alpha, "fragment-alpha", "", "how much of what was trained stays where a part lands, a `decimal` below 1, in mode streaming (default 0)")
	fs.Var(&f.pace, "pace", "how many inner steps a peer does in a round: "+strings.Join(demo.Paces, ", ")+" (default dylu in mode async, else steps)")
	fs.StringVar(&f.cfg.RoundTime, "round-time", "", "`seconds` of a round with --pace deadline, a decimal")
	fs.Var(&f.aggregator, "aggregator", "how contributions are combined: mean, trimmed_mean (of 4 peers, without the highest and the lowest) or median")
	fs.Var(&f.codec, "codec", "how pseudo-gradients travel: f32; bf16, int8 or int4, of fewer bits; or sign, of one")
	fs.Var(sources.Paths(&f.cfg.Data), "data", "text `file or folder` to train on, may be repeated (default the Go standard library's source)")
	fs.Uint64Var(&f.cfg.Seed, "seed", 1, "of the initial model and of the data's division among the peers")
	fs.StringVar(&f.events, "events", "", "append the events of all peers to this `file`, one JSON object a line")
	fs.BoolVar(&f.json, "json", false, "print one JSON document to stdout, everything else to stderr")
	fs.StringVar(&f.keepDir, "keep-dir", "", "`folder` where the peers' data, logs and events and the loss curve stay (default a temporary one, and the curve in ./"+demoCurve+")")
	return cmd
}

func (f *demoFlags) run(ctx context.Context, stdout, stderr io.Writer) (err error) {
	f.cfg.Mode, f.cfg.Pace, f.cfg.Aggregator, f.cfg.Codec = f.mode.Value, f.pace.Value, f.aggregator.Value, f.codec.Value
	if err := f.cfg.Validate(); err != nil {
		return usageError(err)
	}
	f.cfg.Out = stdout
	if f.json {
		f.cfg.Out = stderr
	}
	f.cfg.Terminal, f.cfg.Width = terminal(f.cfg.Out)
	if f.cfg.Executable, err = os.Executable(); err != nil {
		return err
	}
	closePlaces, err := f.openPlaces()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closePlaces()) }()

	hurry := make(chan struct{})
	ctx, stop := untilSignal(ctx,
		func() { fmt.Fprintln(f.cfg.Out, "\nstopping all peers (once more to kill them)") },
		func() { close(hurry) })
	defer stop()
	result, err := demo.Run(ctx, f.cfg, hurry)
	if ctx.Err() != nil {
		return &exitError{exitInterrupted, errors.New("interrupted")}
	}
	if err != nil {
		return err
	}
	return f.conclude(stdout, result)
}

func (f *demoFlags) conclude(stdout io.Writer, r demo.Result) error {
	if f.json {
		e := json.NewEncoder(stdout)
		e.SetIndent("", "  ")
		if err := e.Encode(r); err != nil {
			return err
		}
	}
	if !r.OK() {
		return &exitError{exitFailed, nil}
	}
	return nil
}

// openPlaces opens where things are written: the folder, the picture's path, the events file.
func (f *demoFlags) openPlaces() (closeAll func() error, err error) {
	keep := func() error { return nil }
	if f.keepDir == "" {
		keep, err = f.openTemporary()
	} else {
		err = f.openKept()
	}
	if err != nil || f.events == "" {
		return keep, err
	}
	if f.cfg.Events, err = eventlog.Create(f.events); err != nil {
		return nil, errors.Join(err, keep())
	}
	return func() error { return errors.Join(f.cfg.Events.Close(), keep()) }, nil
}

func (f *demoFlags) openTemporary() (remove func() error, err error) {
	if f.cfg.Curve, err = filepath.Abs(demoCurve); err != nil {
		return nil, err
	}
	if f.cfg.Dir, err = os.MkdirTemp("", "p2pdiloco-demo-"); err != nil {
		return nil, err
	}
	return func() error { return os.RemoveAll(f.cfg.Dir) }, nil
}

func (f *demoFlags) openKept() (err error) {
	if f.cfg.Dir, err = filepath.Abs(f.keepDir); err != nil {
		return err
	}
	if err := os.MkdirAll(f.cfg.Dir, 0o755); err != nil {
		return fmt.Errorf("--keep-dir: %w", err)
	}
	if swarm.Used(f.cfg.Dir) {
		return usageError(fmt.Errorf("--keep-dir %s holds an earlier demo: name another folder, or remove it", f.keepDir))
	}
	f.cfg.Curve = filepath.Join(f.cfg.Dir, demoCurve)
	return nil
}

// terminal says whether w is one, and how many columns it has.
func terminal(w io.Writer) (is bool, width int) {
	file, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return false, 0
	}
	width, _, err := term.GetSize(int(file.Fd()))
	if err != nil {
		return true, 0
	}
	return true, width
}
