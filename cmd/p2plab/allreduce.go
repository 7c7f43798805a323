package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/bench"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/bench/reduce"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
)

// reduceFlags are the command line of bench allreduce.
type reduceFlags struct {
	output
	cfg     reduce.Config
	size    byteSize
	against []string
	goals   bool
}

func newAllreduce() *cobra.Command {
	f := &reduceFlags{cfg: reduce.Config{Case: reduce.Default()}}
	cmd := &cobra.Command{
		Use:   "allreduce",
		Short: "Measure the all-reduce: time, bandwidth, CPU, memory",
		Long: `Reduce a vector among real processes on this machine, one for each peer, over encrypted connections,
with the engine of a run but without its ledger and disk. After two rounds that do not count, each round
begins on all peers at the same time and takes as long as the slowest of them. The outcome is compared
with a plain reference, and must have the same bits on all peers in every round.

With --against mpi OpenMPI's MPI_Allreduce over TCP takes turns with ours, unencrypted, and the ratio is
printed. Rounds are lines of Go's benchmark format, so that benchstat compares two runs. On a machine that is busy with other work, only the ratios of one run are reliable.

With --goals all cases that goals are set for are measured one after the other.`,
		Example: `  p2plab bench allreduce --size 16MiB
  p2plab bench allreduce --against mpi
  p2plab bench allreduce --roots=false --aggregator trimmed_mean
  sudo p2plab bench allreduce --netns --rate 200mbit --size 32MiB
  p2plab bench allreduce --goals`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	c := &f.cfg
	fs.IntVar(&c.Members, "peers", c.Members, "peers, a process each")
	fs.Uint64Var(&c.Elements, "elements", c.Elements, "elements of the vector")
	fs.Var(&f.size, "size", "of the vector as float32, like 64MiB, instead of --elements")
	fs.Uint64Var(&c.Frame, "frame", 0, "elements of a frame (default as in a run of that size)")
	fs.StringVar(&c.Schedule, "schedule", c.Schedule, "`how` frames travel: "+strings.Join(reduce.Schedules, ", "))
	fs.StringVar(&c.Aggregator, "aggregator", c.Aggregator,
		"`how` contributions become one: mean, trimmed_mean, median")
	fs.StringVar(&c.Codec, "codec", c.Codec, "`codec` of contributions and outcome")
	fs.IntVar(&c.Iters, "iters", 7, "rounds that count")
	fs.StringVar(&c.Security, "security", c.Security,
		"`what` encrypts connections: "+strings.Join(reduce.Securities, ", "))
	fs.StringVar(&c.Transport, "transport", c.Transport,
		"`what` carries them: "+strings.Join(reduce.Transports, ", "))
	fs.BoolVar(&c.Roots, "roots", c.Roots, "hash and check every frame, as runs do")
	fs.BoolVar(&c.Namespaces, "netns", false,
		"put each peer into a network namespace of its own, behind a link; needs root, on Linux")
	fs.Var(&c.Rate, "rate", "of that link, each way, like 200mbit (default no limit)")
	fs.DurationVar(&c.Delay, "delay", 0, "one way between two peers in namespaces")
	fs.Var(sources.Paths(&f.against), "against", "`program` to take turns with: mpi")
	fs.StringVar(&c.Profile, "profile", "", "`folder` for a CPU profile of each peer's counted rounds")
	fs.BoolVar(&f.goals, "goals", false, "measure all cases that goals are set for; with root also those on links")
	return cmd
}

func (f *reduceFlags) run(cmd *cobra.Command) (err error) {
	if err := f.settle(cmd); err != nil {
		return cli.UsageError(err)
	}
	return f.output.run(cmd, &f.cfg.Setting, func(ctx context.Context) (any, bool, error) {
		if f.goals {
			return nil, true, reduce.RunGoals(ctx, f.cfg)
		}
		r, err := reduce.Run(ctx, f.cfg)
		if err == nil {
			r.Print(f.cfg.Out)
		}
		return nil, true, err
	})
}

// settle makes a Config of the flags.
func (f *reduceFlags) settle(cmd *cobra.Command) (err error) {
	fs := cmd.Flags()
	f.cfg.Against = strings.Join(f.against, ", ")
	if f.size > 0 {
		if sources.Rank(fs, "elements") > 0 {
			return &sources.Fault{Flag: "size", Value: f.size.String(), Why: "give it or --elements, not both"}
		}
		f.cfg.Elements = uint64(f.size) / 4
	}
	if f.cfg.Profile, err = bench.ProfileFolder(f.cfg.Profile); err != nil {
		return err
	}
	return f.cfg.Validate()
}
