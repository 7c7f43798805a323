package main

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/bench"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/bench/modes"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
)

func newModes() *cobra.Command {
	var o output
	c := modes.Config{Modes: slices.Clone(modes.Modes), Codecs: []string{"f32"}}
	cmd := &cobra.Command{
		Use:   "modes",
		Short: "Measure the modes of a run against synchronous data-parallel training",
		Long: `Train the built-in model with swarms of real processes on this machine, once in every mode and seed,
all from one warm start and on equally many tokens, and compare them with synchronous data-parallel
training, in which every step is averaged over all peers: loss, bytes, peak bandwidth, the share of
time in which trainers stood still, wall-clock time. Mode async is measured with one peer that is
four times slower than the others, and so is mode sync, beside it.

Peers share this machine's cores. Therefore inner steps get a length (--step-time) at which that does not
matter; otherwise stall and wall-clock time would mean nothing.

What was measured is printed in Go's benchmark format, a line for each mode and seed, so that benchstat
compares two runs; then medians over the seeds, and goals that are met or missed. A goal that is missed is
no failure: the exit status is 0 if everything ran to its end. It takes some minutes on two cores, with 3
seeds of 20 rounds of 50 steps about an hour.`,
		Example: `  p2plab bench modes
  p2plab bench modes --seeds 3 --rounds 20 --inner-steps 50 --warm-steps 400 >modes.txt
  p2plab bench modes --modes sync,delayed --inner-steps 10 --rounds 80
  p2plab bench modes --modes sync --codecs f32,int8,int4,sign --inner-steps 25   # what is lost with fewer bits
  sudo p2plab bench modes --rtt 20ms --rate 20mbit   # stall shares on slow links`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.Validate(); err != nil {
				return cli.UsageError(err)
			}
			return o.measure(cmd, &c.Setting, func(ctx context.Context, r *bench.Report) error {
				return modes.Run(ctx, c, r)
			})
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.Var(&c.Modes, "modes", "`modes` to measure")
	fs.Var(&c.Codecs, "codecs", "`codecs` to measure mode sync with, like f32,topk; sign+int8 has that of the outcome")
	fs.Uint64Var(&c.Seeds, "seeds", 1, "how many times everything is done, each time with other data")
	fs.Uint64Var(&c.InnerSteps, "inner-steps", 25, "training steps of a peer between two rounds")
	fs.Uint64Var(&c.Rounds, "rounds", 8, "rounds to train")
	fs.Uint64Var(&c.WarmSteps, "warm-steps", 200, "data-parallel steps of the common start")
	fs.Var(&c.Model, "model", "sizes of builtin:gpt (default layers=1,width=96,heads=4,context=32,batch=32)")
	fs.Var(sources.Paths(&c.Data), "data",
		"text `file or folder` to train on, may be repeated (default the Go standard library's source)")
	fs.DurationVar(&c.StepTime, "step-time", 100*time.Millisecond,
		"how long an inner step lasts: long enough for this machine's cores, or step-x-pace is above 1.1")
	c.Flags(fs)
	o.keep(fs, "the warm start, logs and events")
	return cmd
}
