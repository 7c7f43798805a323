package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/internal/lab"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/slotbench"
)

// slotFlags are the command line of bench slot.
type slotFlags struct {
	cfg     slotbench.Config
	size    byteSize
	keepDir string
	json    bool
}

func newSlot() *cobra.Command {
	f := &slotFlags{size: 1 << 20}
	cmd := &cobra.Command{
		Use:   "slot",
		Short: "Measure how long an outer step takes, by phase",
		Long: `Measure what a trainer waits for between two rounds: from its last inner step until the new anchor is
loaded. Peers are whole nodes, a process each, with the ledger of a run and a data directory that is
synced; their trainers take no time. Medians and 90th percentiles over all slots and peers are printed
by phase, and what one slot takes: CPU time, bytes, fsyncs, ledger messages, signatures.

Two slots before those that count, and one after them, are left out. All peers must hold the same
model after every slot. The data directories are in --keep-dir: it should be on the disk that counts.`,
		Example: `  p2plab bench slot
  p2plab bench slot --peers 8 --size 64MiB --slots 20 --json
  p2plab bench slot --keep-dir /mnt/disk/bench
  sudo p2plab bench slot --delay 50ms   # each peer behind a link, with a round trip of 50 ms`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), cmd) },
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.IntVar(&f.cfg.Peers, "peers", 4, "peers, a process each")
	fs.Var(&f.size, "size", "of the model as float32, like 64MiB")
	fs.Uint64Var(&f.cfg.Slots, "slots", 50, "slots that count")
	fs.DurationVar(&f.cfg.Delay, "delay", 0, "round trip between two peers, each in a network namespace of its own; "+
		"needs root, on Linux (default loopback)")
	fs.BoolVar(&f.json, "json", false, "print one JSON document to stdout, with every slot of every peer")
	fs.StringVar(&f.keepDir, "keep-dir", "", "`folder` where data directories and logs stay (default a temporary "+
		"one, kept if something failed)")
	return cmd
}

func (f *slotFlags) run(ctx context.Context, cmd *cobra.Command) (err error) {
	f.cfg.Bytes = uint64(f.size)
	if err := f.cfg.Validate(); err != nil {
		return cli.UsageError(err)
	}
	if f.cfg.Executable, err = os.Executable(); err != nil {
		return err
	}
	var remove func() error
	if f.cfg.Dir, remove, err = cli.OpenDir(f.keepDir, "p2pdiloco-bench-"); err != nil {
		return err
	}
	ctx, hurry, stop := cli.StopPeers(ctx, cmd.ErrOrStderr())
	defer stop()
	result, err := slotbench.Run(ctx, f.cfg, hurry)
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
	if f.json {
		return errors.Join(cli.PrintJSON(cmd.OutOrStdout(), result), remove())
	}
	result.Print(cmd.OutOrStdout())
	return remove()
}
