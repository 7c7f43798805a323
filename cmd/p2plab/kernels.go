package main

import (
	"math"
	"time"

	"github.com/spf13/cobra"

	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/kernelbench"
)

// kernelsFlags are the command line of bench kernels.
type kernelsFlags struct {
	cfg      kernelbench.Config
	elements uint64
	json     bool
}

func newKernels() *cobra.Command {
	f := &kernelsFlags{}
	cmd := &cobra.Command{
		Use:   "kernels",
		Short: "Measure the arithmetic of a slot: aggregation, outer step, codecs, hash",
		Long: `Measure what a slot computes, on one core: aggregation of 4 to 32 contributions, the outer steps, the
pseudo-gradient, checks, codecs and the hash of frames, in GB/s of all that is read and written. Beside
each are the plain Go loop with the same bits, and a copy (memcpy) of as many bytes in the same round.
Samples are interleaved and medians are printed, so that ratios hold on a busy machine, too.`,
		Example: `  p2plab bench kernels
  p2plab bench kernels --elements 65536 --json >kernels.json   # vectors that stay in a cache`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.Uint64Var(&f.elements, "elements", 1<<20, "`elements` of a vector; about 70 vectors are held")
	fs.IntVar(&f.cfg.Rounds, "iters", 7, "samples of each kernel, of which the median counts")
	fs.BoolVar(&f.json, "json", false, "print one JSON document to stdout, everything else to stderr")
	return cmd
}

func (f *kernelsFlags) run(cmd *cobra.Command) error {
	f.cfg.Elements = int(min(f.elements, math.MaxInt))
	if err := f.cfg.Validate(); err != nil {
		return cli.UsageError(err)
	}
	ctx, stop := cli.UntilSignal(cmd.Context(), func() {}, func() {})
	defer stop()
	f.cfg.Sample = 3 * time.Millisecond
	result, err := kernelbench.Run(ctx, f.cfg, cmd.ErrOrStderr())
	if ctx.Err() != nil {
		return cli.ErrInterrupted
	}
	if err != nil {
		return err
	}
	return show(cmd, f.json, result)
}
