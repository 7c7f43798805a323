package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/natbench"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
)

// natFlags are the command line of bench nat.
type natFlags struct {
	output
	cfg   natbench.Config
	size  byteSize
	pairs bool
	quick bool
	write string
}

func newNAT() *cobra.Command {
	f := &natFlags{cfg: natbench.Default()}
	f.size = byteSize(f.cfg.Size)
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
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.BoolVar(&f.quick, "quick", false, "four kinds, 4 MiB, timing of one building. What is given beside it wins")
	fs.Var(&f.cfg.Kinds, "kinds", "`kinds` of routers whose pairs are measured")
	fs.BoolVar(&f.pairs, "pairs", false, "the pairs only, without the four peers")
	fs.Var(&f.size, "size", "of the four peers' vector as float32, like 32MiB")
	fs.Var(&f.cfg.Rate, "rate", "of every link, each way, like 100mbit")
	fs.DurationVar(&f.cfg.Delay, "delay", f.cfg.Delay, "one way between two hosts with public addresses")
	fs.StringVar(&f.cfg.Preset, "preset", f.cfg.Preset, "`preset` of the peers' timing: lan or wan")
	fs.DurationVar(&f.cfg.Limit, "limit", f.cfg.Limit,
		"for a pair to connect and train together; a slot of the four has four times that")
	fs.StringVar(&f.write, "write", "", "`file` to put the tables into, between the marks that are there")
	f.flags(fs, "logs and events")
	return cmd
}

// quickNAT are the values of flags that --quick stands for.
var quickNAT = map[string]string{
	"kinds": "public,port-restricted,symmetric,no-udp", "size": "4MiB", "preset": "lan", "limit": "30s",
}

func (f *natFlags) run(cmd *cobra.Command) error {
	if err := f.settle(cmd); err != nil {
		return cli.UsageError(err)
	}
	return f.output.run(cmd, &f.cfg.Setting, func(ctx context.Context) (any, bool, error) {
		r, err := natbench.Run(ctx, f.cfg)
		if err == nil && f.write != "" {
			err = r.Write(f.write)
		}
		if err != nil {
			return nil, false, err
		}
		logsAre(f.cfg.Setting, r.OK())
		return r, r.OK(), nil
	})
}

// settle makes a Config of the flags.
func (f *natFlags) settle(cmd *cobra.Command) error {
	if f.quick {
		if err := presets(cmd.Flags(), quickNAT); err != nil {
			return err
		}
	}
	f.cfg.Size = uint64(f.size)
	if f.pairs {
		f.cfg.Size = 0
	}
	if f.write != "" {
		if err := natbench.CheckFile(f.write); err != nil {
			return &sources.Fault{Flag: "write", Value: f.write, Why: err.Error()}
		}
	}
	return f.cfg.Validate()
}
