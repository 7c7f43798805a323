package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/p2pdiloco/p2pdiloco/bridge/settings"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/bench"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/bench/modes"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
)

// modesFlags are the command line of bench modes.
type modesFlags struct {
	output
	cfg   modes.Config
	model settings.Model
	quick bool
}

func newModes() *cobra.Command {
	f := &modesFlags{}
	f.cfg.Modes, f.cfg.Codecs = slices.Clone(modes.Modes), []string{"f32"}
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
no failure: the exit status is 0 if everything ran to its end. Without --quick it takes about an hour on
two cores.`,
		Example: `  p2plab bench modes --quick
  p2plab bench modes --keep-dir /tmp/bench >modes.txt
  p2plab bench modes --modes sync,delayed --inner-steps 10 --rounds 80
  p2plab bench modes --modes sync --codecs f32,int8,int4,sign --inner-steps 25   # what is lost with fewer bits
  sudo p2plab bench modes --quick --rtt 20ms --rate 20mbit   # stall shares on slow links`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.BoolVar(&f.quick, "quick", false, "1 seed, 8 rounds of 25 steps, a warm start of 200: some minutes. What is "+
		"given beside it wins")
	fs.Var(&f.cfg.Modes, "modes", "`modes` to measure")
	fs.Var(&f.cfg.Codecs, "codecs", "`codecs` to measure mode sync with, like f32,int8,int4,sign")
	fs.Uint64Var(&f.cfg.Seeds, "seeds", 3, "how many times everything is done, each time with other data")
	fs.IntVar(&f.cfg.Peers, "peers", 4, "peers of each swarm")
	fs.Uint64Var(&f.cfg.InnerSteps, "inner-steps", 50, "training steps of a peer between two rounds")
	fs.Uint64Var(&f.cfg.Rounds, "rounds", 20, "rounds to train")
	fs.Uint64Var(&f.cfg.WarmSteps, "warm-steps", 400, "data-parallel steps of the common start")
	fs.Var(&f.model, "model", "sizes of builtin:gpt (default layers=1,width=96,heads=4,context=32,batch=32)")
	fs.Var(sources.Paths(&f.cfg.Data), "data",
		"text `file or folder` to train on, may be repeated (default the Go standard library's source)")
	fs.DurationVar(&f.cfg.StepTime, "step-time", 100*time.Millisecond,
		"how long an inner step lasts: long enough for this machine's cores, or step-x-pace is above 1.1")
	f.cfg.Links.Flags(fs)
	f.keep(fs, "the warm start, logs and events")
	return cmd
}

// quickModes are the values of flags that --quick stands for.
var quickModes = map[string]string{"seeds": "1", "rounds": "8", "inner-steps": "25", "warm-steps": "200"}

func (f *modesFlags) run(cmd *cobra.Command) error {
	if err := f.settle(cmd); err != nil {
		return cli.UsageError(err)
	}
	return f.measure(cmd, &f.cfg.Setting, func(ctx context.Context) (bench.Report, error) { return modes.Run(ctx, f.cfg) })
}

// settle makes a Config of the flags.
func (f *modesFlags) settle(cmd *cobra.Command) error {
	for flag, value := range quickModes {
		if f.quick && sources.Rank(cmd.Flags(), flag) == 0 {
			if err := cmd.Flags().Lookup(flag).Value.Set(value); err != nil {
				return err
			}
		}
	}
	f.cfg.Model = f.model.Config
	model := f.model.Validate()
	if model != nil {
		model = &sources.Fault{Flag: "model", Value: f.model.String(), Why: model.Error()}
	}
	return errors.Join(f.cfg.Validate(), model)
}
