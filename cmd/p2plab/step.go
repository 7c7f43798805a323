package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/internal/lab"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/bench"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/bench/step"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// stepFlags are the command line of bench step and bench allreduce.
type stepFlags struct {
	output
	cfg     step.Config
	one     step.Case // of which all are made
	size    byteSize
	trusts  lab.Names[string]
	against string
	goals   bool
}

func newStep() *cobra.Command {
	f := &stepFlags{size: 1 << 20, trusts: lab.Names[string]{p2pdiloco.TrustCrash}}
	cmd := &cobra.Command{
		Use: "step", Aliases: []string{"slot"},
		Short: "Measure how long an outer step takes, by phase, and what it costs",
		Long: `Measure what a trainer waits for between two rounds: from its last inner step until the new anchor is
loaded. Peers are whole nodes, a process each, with the ledger of a run and a data directory that is
synced; their trainers take no time. Each slot of each peer is printed in Go's benchmark format, by
phase, so that benchstat compares two runs; then what one slot takes of all peers, and the most that it
takes of one: CPU time, bytes, fsyncs, ledger messages, signatures; and the most memory that a process
had resident, in vectors of the model (its trainer has two). At last come medians and spreads, and
goals that are met or missed.

Swarms of ten slots take turns, of each kind of trust. Two slots before those that count, and one after
them, are left out. All peers must hold the same model after every slot. The data directories are in
--keep-dir: it should be on the disk that counts.

With --rtt or --rate each peer is in a network namespace of its own, behind a link. With --against mpi
OpenMPI's MPI_Allreduce over TCP takes turns, too.`,
		Example: `  p2plab bench step
  p2plab bench step --peers 8 --size 64MiB --slots 20 --against mpi
  p2plab bench step --keep-dir /mnt/disk/bench
  p2plab bench step --trusts crash,byzantine
  sudo p2plab bench step --rtt 50ms   # each peer behind a link, with a round trip of 50 ms`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	fs := cmd.Flags()
	f.flags(fs, 50)
	fs.Var(&f.trusts, "trusts", "`trust` of the run: crash, byzantine, or both in turns")
	f.keep(fs, "data directories and logs")
	return cmd
}

func newAllreduce() *cobra.Command {
	f := &stepFlags{size: 64 << 20, trusts: lab.Names[string]{""}}
	f.one.Alone, f.one.Spec.Aggregator = true, string(allreduce.Mean)
	cmd := &cobra.Command{
		Use:   "allreduce",
		Short: "Measure the all-reduce alone: time, bandwidth, CPU, memory",
		Long: `Reduce a vector among real processes on this machine, one for each peer, over encrypted connections,
with the engine and the network of a run but without its ledger, disk and trainer. After two reductions
that do not count, each begins on all peers at the same time and takes as long as the slowest of them.
The outcome must have the same bits on all peers every time.

With --against mpi OpenMPI's MPI_Allreduce over TCP takes turns with ours, unencrypted, and the ratio is
printed. Reductions are lines of Go's benchmark format, so that benchstat compares two runs. On a machine
that is busy with other work, only the ratios of one run are reliable.

With --goals all cases that goals are set for are measured one after the other.`,
		Example: `  p2plab bench allreduce --size 16MiB
  p2plab bench allreduce --against mpi
  p2plab bench allreduce --aggregator trimmed_mean
  sudo p2plab bench allreduce --rate 200mbit --size 32MiB
  p2plab bench allreduce --goals`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	fs := cmd.Flags()
	f.flags(fs, 30)
	fs.BoolVar(&f.goals, "goals", false, "measure all cases that goals are set for; with root also those on links")
	f.keep(fs, "logs")
	return cmd
}

func (f *stepFlags) flags(fs *pflag.FlagSet, slots uint64) {
	fs.SortFlags = false
	s := &f.one.Spec
	fs.IntVar(&f.one.Peers, "peers", 4, "peers, a process each")
	fs.Var(&f.size, "size", "of the model as float32, like 64MiB")
	fs.Uint64Var(&f.cfg.Slots, "slots", slots, "slots that count, of one reduction each")
	fs.Var(sources.OneOf(&s.Aggregator, "aggregator", []string{"mean", "trimmed_mean", "median"}), "aggregator",
		"how contributions become one: mean, trimmed_mean, median")
	fs.Var(sources.OneOf(&s.Codec, "codec", p2pdiloco.Codecs()), "codec", "of contributions and outcome")
	fs.Var(sources.OneOf(&s.Schedule, "schedule", []string{"rotation", "ring", "auto"}), "schedule",
		"how frames travel: rotation, ring, auto")
	fs.Var(sources.OneOf(&f.one.Transport, "transport", []string{p2p.TransportTCP, p2p.TransportQUIC}), "transport",
		"what peers listen on: tcp, quic (default both)")
	f.one.Links.Flags(fs)
	fs.Var(sources.OneOf(&f.against, "program", []string{"mpi"}), "against",
		"what reduces as large a vector in turns: mpi")
	fs.StringVar(&f.cfg.Profile, "profile", "", "`folder` for a CPU profile of each peer's slots that count")
}

func (f *stepFlags) run(cmd *cobra.Command) (err error) {
	f.one.Bytes, f.cfg.MPI = uint64(f.size), f.against != ""
	for _, trust := range f.trusts {
		f.one.Spec.Trust = trust
		f.cfg.Cases = append(f.cfg.Cases, f.one)
	}
	if f.cfg.Profile, err = bench.ProfileFolder(f.cfg.Profile); err == nil {
		err = f.cfg.Validate()
	}
	if err != nil {
		return cli.UsageError(err)
	}
	return f.measure(cmd, &f.cfg.Setting, func(ctx context.Context) (bench.Report, error) {
		if f.goals {
			return bench.Report{}, f.runGoals(ctx)
		}
		return step.Run(ctx, f.cfg)
	})
}

// runGoals measures all that has goals. What fails does not end the rest.
func (f *stepFlags) runGoals(ctx context.Context) error {
	noMPI := bench.FindMPI()
	if noMPI != nil {
		fmt.Fprintln(f.cfg.Out, noMPI)
	}
	var errs []error
	for _, cfg := range step.Goals(f.cfg) {
		cfg.MPI = cfg.MPI && noMPI == nil // ours is worth having
		r, err := step.Run(ctx, cfg)
		r.Print(cfg.Out)
		if errors.Is(err, lab.ErrNotRoot) {
			fmt.Fprintln(cfg.Out, err)
		} else if errs = append(errs, err); ctx.Err() != nil {
			break
		}
	}
	return errors.Join(errs...)
}
