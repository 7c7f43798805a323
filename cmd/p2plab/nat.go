package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/internal/lab"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/natbench"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
)

// natFlags are the command line of bench nat.
type natFlags struct {
	cfg     natbench.Config
	kinds   string
	size    byteSize
	rate    sources.Rate
	pairs   bool
	quick   bool
	keepDir string
	write   string
	json    bool
}

func newNAT() *cobra.Command {
	f := &natFlags{cfg: natbench.Default()}
	f.kinds, f.size, f.rate = natbench.Join(f.cfg.Kinds), byteSize(f.cfg.Size), sources.Rate(f.cfg.Rate)
	cmd := &cobra.Command{
		Use:   "nat",
		Short: "Measure how peers behind routers reach each other",
		Long: `Make an internet of network namespaces with several kinds of routers, and measure how peers behind them
reach each other: for every pair of kinds, how they connected, after what time, and when they had
trained together. Then four peers (one public, two behind different routers, one behind a symmetric one)
reduce a large vector in every slot, while the bootstrap node is killed, a relay is killed, and a peer's
addresses change.

It needs root, Linux, iproute2 and nftables, and touches nothing of the machine's own network. The
exit status is 0 if all pairs were connected and all slots ended with equal state roots. Without
--quick it takes about half an hour.`,
		Example: `  sudo p2plab bench nat --quick
  sudo p2plab bench nat --kinds full-cone,symmetric --pairs
  sudo p2plab bench nat --write docs/connectivity.md`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), cmd) },
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.BoolVar(&f.quick, "quick", false, "four kinds, 4 MiB, timing of one building. What is given beside it wins")
	fs.StringVar(&f.kinds, "kinds", f.kinds, "`kinds` of routers whose pairs are measured")
	fs.BoolVar(&f.pairs, "pairs", false, "the pairs only, without the four peers")
	fs.Var(&f.size, "size", "of the four peers' vector as float32, like 32MiB")
	fs.Var(&f.rate, "rate", "of every link, each way, like 100mbit")
	fs.DurationVar(&f.cfg.Delay, "delay", f.cfg.Delay, "one way between two hosts with public addresses")
	fs.Var(sources.OneOf(&f.cfg.Preset, "preset", []string{p2pdiloco.PresetLAN, p2pdiloco.PresetWAN}), "preset",
		"timing of the peers: lan or wan")
	fs.DurationVar(&f.cfg.Limit, "limit", f.cfg.Limit,
		"for a pair to connect and train together; a slot of the four has four times that")
	fs.StringVar(&f.write, "write", "", "`file` to put the tables into, between the marks that are there")
	fs.BoolVar(&f.json, "json", false, "print one JSON document to stdout, everything else to stderr")
	fs.StringVar(&f.keepDir, "keep-dir", "", "`folder` where logs and events stay (default a temporary one, kept if "+
		"something failed)")
	return cmd
}

func (f *natFlags) run(ctx context.Context, cmd *cobra.Command) (err error) {
	if err := f.settle(cmd); err != nil {
		return cli.UsageError(err)
	}
	f.cfg.Out = cli.Progress(cmd, f.json)
	if f.cfg.Executable, err = os.Executable(); err != nil {
		return err
	}
	var remove func() error
	if f.cfg.Dir, remove, err = cli.OpenDir(f.keepDir, "p2pdiloco-nat-"); err != nil {
		return err
	}
	ctx, hurry, stop := cli.StopPeers(ctx, f.cfg.Out)
	defer stop()
	result, err := natbench.Run(ctx, f.cfg, hurry)
	if ctx.Err() != nil {
		return errors.Join(cli.ErrInterrupted, remove())
	}
	// no peer was started
	if errors.Is(err, lab.ErrNotRoot) || errors.Is(err, errors.ErrUnsupported) {
		return errors.Join(err, remove())
	}
	if err != nil {
		return fmt.Errorf("%w (logs are in %s)", err, f.cfg.Dir)
	}
	return f.conclude(cmd, result, remove)
}

// settle makes a Config of the flags.
func (f *natFlags) settle(cmd *cobra.Command) error {
	given := func(name string) bool { return sources.Rank(cmd.Flags(), name) > 0 }
	c := &f.cfg
	quick := natbench.Quick()
	for name, take := range map[string]func(){
		"kinds":  func() { f.kinds = natbench.Join(quick.Kinds) },
		"size":   func() { f.size = byteSize(quick.Size) },
		"preset": func() { c.Preset = quick.Preset },
		"limit":  func() { c.Limit = quick.Limit },
	} {
		if f.quick && !given(name) {
			take()
		}
	}
	c.Kinds, c.Size, c.Rate = natbench.ParseKinds(f.kinds), uint64(f.size), int64(f.rate)
	if f.pairs {
		c.Size = 0
	}
	if f.write != "" {
		if err := natbench.CheckFile(f.write); err != nil {
			return &sources.Fault{Flag: "write", Value: f.write, Why: err.Error()}
		}
	}
	return c.Validate()
}

func (f *natFlags) conclude(cmd *cobra.Command, r natbench.Result, remove func() error) error {
	if f.json {
		if err := cli.PrintJSON(cmd.OutOrStdout(), r); err != nil {
			return err
		}
	}
	if f.write != "" {
		if err := r.Write(f.write); err != nil {
			return err
		}
	}
	if !r.OK() {
		fmt.Fprintf(f.cfg.Out, "logs are in %s\n", f.cfg.Dir)
		return cli.ErrFailed
	}
	return remove()
}
