package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/bridge/peer"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/internal/lab"
)

// demoCurve is the name of the picture, and demoReport that of the page.
const (
	demoCurve  = "p2pdiloco-loss.svg"
	demoReport = "p2pdiloco-report.html"
)

// demoFlags are the command line of demo.
type demoFlags struct {
	cfg     demoConfig
	keepDir string
	json    bool
}

func newDemo() *cobra.Command {
	f := &demoFlags{cfg: demoConfig{Spec: p2pdiloco.Spec{
		Mode: p2pdiloco.ModeSync, Codec: codec.F32, Rounds: 8, InnerSteps: 25, Seed: 1,
	}}}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run a whole swarm on this machine, to see it work",
		Long: `Run a whole swarm on this machine: a bootstrap node and some peers, each a process of its own.
The peers get only the bootstrap node's address. They find each other through the DHT, train a
small language model on real text, combine what they learnt with a robust mean, agree on every
step, and end with bit-identical parameters. It takes about two minutes on two cores.

The exit status is 0 only if all peers finished with equal state roots and the loss fell.`,
		Example: `  p2pdiloco demo
  p2pdiloco demo --peers 6 --aggregator median --data ~/books --keep-dir /tmp/demo
  p2pdiloco demo --json 2>demo.log | jq .identical`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context(), cmd)
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.IntVar(&f.cfg.Peers, "peers", 4, "peers to start")
	peer.RegisterSpec(fs, &f.cfg.Spec, "mode", "rounds", "inner_steps", "fragments", "fragment_delay",
		"fragment_alpha", "pace", "aggregator", "codec", "seed", "trust")
	fs.Lookup("fragments").Usage = "fragments of the model that take turns, in mode streaming (default 4)"
	fs.StringArrayVar(&f.cfg.Data, "data", nil,
		"text `file or folder` to train on, may be repeated (default the Go standard library's source, where Go is "+
			"installed)")
	fs.BoolVar(&f.json, "json", false, "print one JSON document to stdout, everything else to stderr")
	fs.StringVar(&f.keepDir, "keep-dir", "", "`folder` where the peers' data, logs and events, the loss curve and "+
		"the report stay (default a temporary one, and ./"+demoCurve+" and ./"+demoReport+")")
	return cmd
}

func (f *demoFlags) run(ctx context.Context, cmd *cobra.Command) (err error) {
	if s := &f.cfg.Spec; s.Aggregator == "" {
		if s.Aggregator = "trimmed_mean"; s.Codec == codec.TopK {
			s.Aggregator, s.Clip = "mean", "on"
		}
	}
	if err := f.cfg.Validate(); err != nil {
		return cli.UsageError(err)
	}
	f.cfg.Out = cli.Progress(cmd, f.json)
	if f.cfg.Executable, err = os.Executable(); err != nil {
		return err
	}
	remove, err := f.openDir()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()

	ctx, hurry, stop := cli.StopPeers(ctx, f.cfg.Out)
	defer stop()
	result, err := runDemo(ctx, f.cfg, hurry)
	if ctx.Err() != nil {
		return cli.ErrInterrupted
	}
	if err != nil {
		return err
	}
	if f.json {
		if err := cli.PrintJSON(cmd.OutOrStdout(), result); err != nil {
			return err
		}
	}
	if !result.OK() {
		return cli.ErrFailed
	}
	return nil
}

// openDir makes the folder that the demo writes to, and says where the picture and the page go.
func (f *demoFlags) openDir() (remove func() error, err error) {
	curve := demoCurve // beside the user, because a temporary folder goes
	if f.keepDir != "" {
		curve = filepath.Join(f.keepDir, demoCurve)
	}
	if f.cfg.Curve, err = filepath.Abs(curve); err != nil {
		return nil, err
	}
	f.cfg.Report = filepath.Join(filepath.Dir(f.cfg.Curve), demoReport)
	if f.cfg.Dir, remove, err = cli.OpenDir(f.keepDir, "p2pdiloco-demo-"); err != nil {
		return nil, err
	}
	if lab.Used(f.cfg.Dir) {
		return nil, cli.UsageError(fmt.Errorf("--keep-dir %s holds an earlier demo: name another folder, or remove it",
			f.keepDir))
	}
	return remove, nil
}
