package main

import (
	"context"
	"errors"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/internal/lab"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/bench"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
	"github.com/p2pdiloco/p2pdiloco/spec"
)

// stepFlags are the command line of bench step and bench allreduce.
type stepFlags struct {
	output
	cfg     bench.StepConfig
	one     bench.Case
	choices []*choice
}

// choice is a flag with one or several values, each of which makes a case.
type choice struct {
	flag, help string
	at         *string // in stepFlags.one
	given      lab.Names[string]
	allowed    []string
}

func newStep() *cobra.Command {
	f := &stepFlags{one: bench.Case{Bytes: 1 << 20}, cfg: bench.StepConfig{Slots: 50}}
	return f.command(&cobra.Command{
		Use:   "step",
		Short: "Measure how long an outer step takes, by phase, and what it costs",
		Long: `Measure what a trainer waits for between two rounds: from its last inner step until the new anchor is
loaded. Peers are whole nodes, a process each, with the ledger of a run and a data directory that is
synced; their trainers take no CPU time. Each slot of each peer is printed in Go's benchmark format, by
phase, so that benchstat compares two runs; then what one slot takes of all peers: CPU time and bytes;
and the most memory that a process had resident, in vectors of the model (D; its trainer has two), and
how much of it is live between two rounds. At last come medians and spreads, and goals that are met or
missed.

The floor is what the arithmetic, the encryption and the copies of a slot must cost: CPU seconds of all
peers, from what each byte costs in each turn on this machine; docs/why/performance.md has the formula.

Several values of a flag, with commas, are cases, whose swarms take turns, of ten slots each. Two slots
before those that count, and one after them, are left out. All peers must hold the same model after every
slot. The data directories are in --keep-dir: it should be on the disk that counts.

With --rtt or --rate each peer is in a network namespace of its own, behind a link. With --against mpi
OpenMPI's MPI_Allreduce over TCP takes turns, too.`,
		Example: `  p2plab bench step
  p2plab bench step --peers 8 --size 64MiB --slots 20 --against mpi
  p2plab bench step --keep-dir /mnt/disk/bench
  p2plab bench step --trusts crash,byzantine
  sudo p2plab bench step --rtt 50ms   # each peer behind a link, with a round trip of 50 ms`,
	})
}

func newAllreduce() *cobra.Command {
	f := &stepFlags{one: bench.Case{Bytes: 64 << 20, Alone: true}, cfg: bench.StepConfig{Slots: 30}}
	return f.command(&cobra.Command{
		Use:   "allreduce",
		Short: "Measure the all-reduce alone: time, bytes, CPU, memory",
		Long: `Reduce a vector among real processes on this machine, one for each peer, over encrypted connections,
with the engine and the network of a run but without its ledger, disk and trainer. After two reductions
that do not count, each begins on all peers at the same time and takes as long as the slowest of them.
The outcome must have the same bits on all peers every time.

With --against mpi OpenMPI's MPI_Allreduce over TCP takes turns with ours, unencrypted, and the ratio is
printed. Reductions are lines of Go's benchmark format, so that benchstat compares two runs. On a machine
that is busy with other work, only the ratios of one run are reliable.

Several values of a flag, with commas, are cases, whose swarms take turns, of ten reductions each.`,
		Example: `  p2plab bench allreduce --size 16MiB
  p2plab bench allreduce --against mpi
  p2plab bench allreduce --aggregators mean,trimmed_mean
  sudo p2plab bench allreduce --rate 200mbit --size 32MiB
  p2plab bench allreduce --codecs f32,int8`,
	})
}

func (f *stepFlags) command(cmd *cobra.Command) *cobra.Command {
	cmd.Args, cmd.RunE = cli.NoArgs, f.run
	s := &f.one.Spec
	f.choices = []*choice{
		{
			"aggregators", "how contributions become one: ", &s.Aggregator, nil,
			[]string{"mean", "trimmed_mean", "median"},
		},
		{"codecs", "of contributions and outcome: ", &s.Codec, nil, spec.Codecs()},
		{"schedules", "how frames travel: ", &s.Schedule, nil, []string{"rotation", "ring", "auto"}},
		{"transports", "what peers listen on (default both): ", &f.one.Transport, nil, []string{"tcp", "quic"}},
	}
	if f.one.Alone {
		f.choices[0].given = []string{"mean"}
	} else {
		f.choices = append(f.choices, &choice{
			"trusts", "what the run withstands: ", &s.Trust, []string{"crash"}, []string{"crash", "byzantine"},
		})
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	f.one.Flags(fs)
	for _, c := range f.choices {
		fs.Var(&c.given, c.flag, c.help+strings.Join(c.allowed, ", "))
	}
	fs.Var(sources.Var(&f.one.Bytes, "size", humanize.ParseBytes, bench.SizeText), "size",
		"of the model as float32, like 64MiB")
	fs.Uint64Var(&f.cfg.Slots, "slots", f.cfg.Slots, "slots that count, of one reduction each")
	fs.Var(sources.OneOf(&f.cfg.Against, "program", []string{"mpi"}), "against",
		"what reduces as large a vector in turns: mpi")
	f.addKeepDir(fs, "data directories and logs")
	return cmd
}

// cases are those of all values of some choices.
func (f *stepFlags) cases(choices []*choice) (all []bench.Case) {
	if len(choices) == 0 {
		return []bench.Case{f.one}
	}
	given := choices[0].given
	if len(given) == 0 {
		given = []string{""}
	}
	for _, v := range given {
		*choices[0].at = v
		all = append(all, f.cases(choices[1:])...)
	}
	return all
}

func (f *stepFlags) run(cmd *cobra.Command, _ []string) error {
	var faults sources.Faults
	for _, c := range f.choices {
		bench.CheckNames(&faults, c.flag, c.given, c.allowed)
	}
	f.cfg.Cases = f.cases(f.choices)
	if err := errors.Join(append(faults, f.cfg.Validate())...); err != nil {
		return cli.UsageError(err)
	}
	return f.measure(cmd, &f.cfg.Setting, func(ctx context.Context, r *bench.Report) error {
		return bench.RunStep(ctx, f.cfg, r)
	})
}
