package main

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/bench"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/bench/reduce"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/bench/step"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
)

// stepFlags are the command line of bench step.
type stepFlags struct {
	output
	cfg     step.Config
	size    byteSize
	against []string
}

func newStep() *cobra.Command {
	f := &stepFlags{size: 1 << 20}
	cmd := &cobra.Command{
		Use: "step", Aliases: []string{"slot"},
		Short: "Measure how long an outer step takes, and the all-reduce in it",
		Long: `Measure what a trainer waits for between two rounds: from its last inner step until the new anchor is
loaded. Peers are whole nodes, a process each, with the ledger of a run and a data directory that is
synced; their trainers take no time. Each slot of each peer is printed in Go's benchmark format, by
phase, so that benchstat compares two runs; then what one slot takes of all peers: CPU time, bytes,
fsyncs, ledger messages, signatures, and the most memory that a process had resident, in vectors of the
model (its trainer has two). At last come medians and spreads, and goals that are met or missed.

Two slots before those that count, and one after them, are left out. All peers must hold the same
model after every slot. The data directories are in --keep-dir: it should be on the disk that counts.

With --rtt each peer is in a network namespace of its own, and this program carries the packets between
them: it holds each of them back for half of the round trip. With two kinds of trust, swarms of either
take turns, of ten slots each. With --against mpi OpenMPI's MPI_Allreduce over TCP takes turns, too.`,
		Example: `  p2plab bench step
  p2plab bench step --peers 8 --size 64MiB --slots 20 --against mpi
  p2plab bench step --keep-dir /mnt/disk/bench
  p2plab bench step --trusts crash,byzantine
  sudo p2plab bench step --rtt 50ms   # each peer behind a link, with a round trip of 50 ms`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.IntVar(&f.cfg.Peers, "peers", 4, "peers, a process each")
	fs.Var(&f.size, "size", "of the model as float32, like 64MiB")
	fs.Uint64Var(&f.cfg.Slots, "slots", 50, "slots that count")
	fs.Var(&f.cfg.Trusts, "trusts", "`trust` of the run: crash (default), byzantine, or both in turns")
	fs.DurationVar(&f.cfg.RTT, "rtt", 0, "round trip between two peers, each in a network namespace of its own; "+
		"needs root, on Linux (default loopback)")
	fs.StringVar(&f.cfg.Profile, "profile", "", "`folder` for a CPU profile of each peer's slots that count")
	fs.Var(sources.Paths(&f.against), "against", "`program` that reduces as large a vector in turns: mpi")
	f.keep(fs, "data directories and logs")
	return cmd
}

func (f *stepFlags) run(cmd *cobra.Command) (err error) {
	f.cfg.Bytes = uint64(f.size)
	if f.cfg.Profile, err = bench.ProfileFolder(f.cfg.Profile); err != nil {
		return err
	}
	f.cfg.MPI = len(f.against) > 0
	if err := errors.Join(against(f.against), f.cfg.Validate()); err != nil {
		return cli.UsageError(err)
	}
	return f.output.run(cmd, &f.cfg.Setting, func(ctx context.Context) (any, bool, error) {
		r, err := step.Run(ctx, f.cfg)
		if err == nil {
			r.Print(f.cfg.Out)
		}
		return nil, true, err
	})
}

// against returns the fault of a flag --against.
func against(programs []string) error {
	if name := strings.Join(programs, ", "); name != "" && name != reduce.MPI {
		return &sources.Fault{Flag: "against", Value: name, Why: "allowed: " + reduce.MPI}
	}
	return nil
}
