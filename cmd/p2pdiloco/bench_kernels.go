package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"time"

	"github.com/spf13/cobra"

	"github.com/p2pdiloco/p2pdiloco/cmd/p2pdiloco/internal/kernelbench"
)

// benchKernelsFlags are the command line of bench kernels.
type benchKernelsFlags struct {
	cfg      kernelbench.Config
	elements uint64
	json     bool
}

func newBenchKernels() *cobra.Command {
	f := &benchKernelsFlags{}
	cmd := &cobra.Command{
		Use:   "kernels",
		Short: "Measure the arithmetic of a slot: aggregation, outer step, codecs, hash",
		Long: `Measure what a slot computes, on one core: aggregation of 4 to 32 contributions, the outer steps, the
pseudo-gradient, checks, codecs and the hash of frames, in GB/s of all that is read and written. Beside
each stand the plain Go loop that gives the same bits, and a copy (memcpy) of as many bytes in the same
round. Samples are interleaved, and medians are what counts: ratios hold on a busy machine, too.`,
		Example: `  p2pdiloco bench kernels
  p2pdiloco bench kernels --elements 65536 --json >kernels.json   # vectors that stay in a cache`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), cmd) },
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.Uint64Var(&f.elements, "elements", 1<<20, "`elements` of a vector; about 70 vectors are held")
	fs.IntVar(&f.cfg.Rounds, "iters", 7, "samples of each kernel, of which the median counts")
	fs.BoolVar(&f.json, "json", false, "print one JSON document to stdout, everything else to stderr")
	return cmd
}

func (f *benchKernelsFlags) run(ctx context.Context, cmd *cobra.Command) error {
	f.cfg.Elements = int(min(f.elements, math.MaxInt))
	if err := f.cfg.Validate(); err != nil {
		return usageError(err)
	}
	ctx, stop := untilSignal(ctx, func() {}, func() {})
	defer stop()
	f.cfg.Sample = 3 * time.Millisecond
	result, err := kernelbench.Run(ctx, f.cfg, cmd.ErrOrStderr())
	if ctx.Err() != nil {
		return &exitError{exitInterrupted, errors.New("interrupted")}
	}
	if err != nil {
		return err
	}
	return f.print(cmd.OutOrStdout(), result)
}

func (f *benchKernelsFlags) print(out io.Writer, result kernelbench.Result) error {
	if f.json {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(result)
	}
	result.Print(out)
	return nil
}
