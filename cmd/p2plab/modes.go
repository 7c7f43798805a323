package main

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/bench"
)

func newModes() *cobra.Command {
	var o output
	c := bench.ModesConfig{Rows: slices.Clone(bench.UsualRows)}
	cmd := &cobra.Command{
		Use:   "modes",
		Short: "Measure the modes of a run against synchronous data-parallel training",
		Long: `Train the built-in model with swarms of real processes on this machine, once for every row and seed,
all from one warm start and on equally many tokens, and compare them with synchronous data-parallel
training, in which every step is averaged over all peers: loss, bytes (those of the all-reduce as
payload, the others as control), peak bandwidth, the share of time in which trainers stood still,
wall-clock time.

A row is a mode, and after dots what is not as usual: a codec (int4, topk:128:4; sign+int8 has that of the
outcome, too), muon in the inner steps, an aggregator (clip, trimmed_mean, median), flip:N (so many of
the last peers contribute ten times the opposite), slow (one peer is four times slower), dylu (each does
as many inner steps as it can).

A row in one seed is a cell. It takes 20 minutes at most. What was not measured is named.

Peers share this machine's cores. Therefore inner steps get a length (--step-time) at which that does not
matter; otherwise stall and wall-clock time would mean nothing.

What was measured is printed in Go's benchmark format, a line for each cell, so that benchstat compares
two runs; then medians over the seeds, and goals that are met or missed. A goal that is missed is
no failure: the exit status is 0 if everything ran to its end. It takes some minutes on two cores, with 3
seeds of 20 rounds of 50 steps about an hour.`,
		Example: `  p2plab bench modes
  p2plab bench modes --seeds 3 --rounds 20 --inner-steps 50 --warm-steps 400 >modes.txt
  p2plab bench modes --rows sync,sync.int4,sync.topk,sync.sign+topk:512:4   # what is lost with fewer bits
  p2plab bench modes --rows sync,sync.muon,sync.int4.muon --inner-steps 50
  p2plab bench modes --peers 8 --rows sync,sync.trimmed_mean.flip:1,sync.median.flip:2
  sudo p2plab bench modes --rtt 20ms --rate 20mbit   # stall shares on slow links`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.Validate(); err != nil {
				return cli.UsageError(err)
			}
			return o.measure(cmd, &c.Setting, func(ctx context.Context, r *bench.Report) error {
				return bench.RunModes(ctx, c, r)
			})
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.Var(&c.Rows, "rows", "`rows` to measure: a mode, and after dots what is not as usual")
	fs.Uint64Var(&c.Seeds, "seeds", 1, "how many times everything is done, each time with other data")
	fs.Uint64Var(&c.InnerSteps, "inner-steps", 25, "training steps of a peer between two rounds")
	fs.Uint64Var(&c.Rounds, "rounds", 8, "rounds to train")
	fs.Uint64Var(&c.WarmSteps, "warm-steps", 200, "data-parallel steps of the common start")
	fs.Var(&c.Model, "model", "sizes of builtin:gpt (default layers=1,width=96,heads=4,context=32,batch=32)")
	fs.StringArrayVar(&c.Data, "data", nil,
		"text `file or folder` to train on, may be repeated (default the Go standard library's source)")
	fs.DurationVar(&c.StepTime, "step-time", 100*time.Millisecond,
		"how long an inner step lasts: long enough for this machine's cores, or step-x-pace is above 1.1")
	c.Flags(fs)
	o.addKeepDir(fs, "the warm start, logs and events")
	return cmd
}
