package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/bench"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/slotbench"
)

// slotFlags are the command line of bench slot.
type slotFlags struct {
	output
	cfg  slotbench.Config
	size byteSize
}

func newSlot() *cobra.Command {
	f := &slotFlags{size: 1 << 20}
	cmd := &cobra.Command{
		Use:   "slot",
		Short: "Measure how long an outer step takes, by phase",
		Long: `Measure what a trainer waits for between two rounds: from its last inner step until the new anchor is
loaded. Peers are whole nodes, a process each, with the ledger of a run and a data directory that is
synced; their trainers take no time. Medians and 90th percentiles over all slots and peers are printed
by phase, and what one slot takes: CPU time, bytes, fsyncs, ledger messages, signatures, and the most
memory that a process had resident (its trainer's two vectors of float32 are in it).

Two slots before those that count, and one after them, are left out. All peers must hold the same
model after every slot. The data directories are in --keep-dir: it should be on the disk that counts.

With --rtt each peer is in a network namespace of its own, and this program carries the packets between
them: it holds each of them back for half of the round trip. With two kinds of trust, swarms of either
take turns, of ten slots each, and stand side by side.`,
		Example: `  p2plab bench slot
  p2plab bench slot --peers 8 --size 64MiB --slots 20 --json
  p2plab bench slot --keep-dir /mnt/disk/bench
  p2plab bench slot --trusts crash,byzantine
  sudo p2plab bench slot --rtt 50ms   # each peer behind a link, with a round trip of 50 ms`,
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
	f.flags(fs, "data directories and logs")
	return cmd
}

func (f *slotFlags) run(cmd *cobra.Command) (err error) {
	f.cfg.Bytes = uint64(f.size)
	if f.cfg.Profile, err = bench.ProfileFolder(f.cfg.Profile); err != nil {
		return err
	}
	if err := f.cfg.Validate(); err != nil {
		return cli.UsageError(err)
	}
	return f.output.run(cmd, &f.cfg.Setting, func(ctx context.Context) (any, bool, error) {
		r, err := slotbench.Run(ctx, f.cfg)
		if err == nil && !f.json {
			r.Print(f.cfg.Out)
		}
		return r, true, err
	})
}
