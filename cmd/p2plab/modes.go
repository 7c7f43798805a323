package main

import (
	"context"
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"github.com/p2pdiloco/p2pdiloco/bridge/settings"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
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

Peers share this machine's cores. Therefore inner steps get a length at which that does not matter;
otherwise stall and wall-clock time would mean nothing.

The goals are printed beside what was measured. A goal that is not met is no failure: the exit status
is 0 if everything ran to its end. Without --quick it takes about an hour on two cores.`,
		Example: `  p2plab bench modes --quick
  p2plab bench modes --json --keep-dir /tmp/bench >modes.json
  p2plab bench modes --modes sync,delayed --inner-steps 10 --rounds 80
  p2plab bench modes --modes sync --codecs f32,int8,int4,sign --inner-steps 25   # what is lost with fewer bits
  sudo p2plab bench modes --quick --netns --rate 20mbit   # stall shares on slow links`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.BoolVar(&f.quick, "quick", false, "1 seed, 8 rounds of 25 steps, a warm start of 200: some minutes. What is "+
		"given beside it wins")
	fs.Var(&f.cfg.Modes, "modes", "`modes` to measure")
	fs.Var(&f.cfg.Codecs, "codecs", "`codecs` to measure mode sync with, like f32,int8,int4,sign")
	fs.IntVar(&f.cfg.Seeds, "seeds", 3, "how many times everything is done, each time with other data")
	fs.IntVar(&f.cfg.Peers, "peers", 4, "peers of each swarm")
	fs.Uint64Var(&f.cfg.InnerSteps, "inner-steps", 50, "training steps of a peer between two rounds")
	fs.Uint64Var(&f.cfg.Rounds, "rounds", 20, "rounds to train")
	fs.IntVar(&f.cfg.WarmSteps, "warm-steps", 400,
		"data-parallel steps of the common start; kept in --keep-dir and used again")
	fs.Var(&f.model, "model", "sizes of builtin:gpt (default layers=1,width=96,heads=4,context=32,batch=32)")
	fs.Var(sources.Paths(&f.cfg.Data), "data",
		"text `file or folder` to train on, may be repeated (default the Go standard library's source)")
	fs.DurationVar(&f.cfg.StepTime, "step-time", 0,
		"how long an inner step lasts (default by measurement: long enough for this machine's cores)")
	fs.BoolVar(&f.cfg.Namespaces, "netns", false,
		"put each peer into a network namespace of its own, behind a link; needs root, on Linux")
	fs.Var(&f.cfg.Rate, "rate", "of that link, each way, like 20mbit (default no limit)")
	f.flags(fs, "the warm start, logs and events")
	return cmd
}

// quickModes are the values of flags that --quick stands for.
var quickModes = map[string]string{"seeds": "1", "rounds": "8", "inner-steps": "25", "warm-steps": "200"}

func (f *modesFlags) run(cmd *cobra.Command) error {
	if err := f.settle(cmd); err != nil {
		return cli.UsageError(err)
	}
	return f.output.run(cmd, &f.cfg.Setting, func(ctx context.Context) (any, bool, error) {
		r, err := modes.Run(ctx, f.cfg)
		if err != nil {
			return nil, false, err
		}
		logsAre(f.cfg.Setting, r.OK())
		return r, r.OK(), nil
	})
}

// settle makes a Config of the flags.
func (f *modesFlags) settle(cmd *cobra.Command) error {
	if f.quick {
		if err := presets(cmd.Flags(), quickModes); err != nil {
			return err
		}
	}
	f.cfg.Model = f.model.Config
	model := f.model.Validate()
	if model != nil {
		model = &sources.Fault{Flag: "model", Value: f.model.String(), Why: model.Error()}
	}
	return errors.Join(f.cfg.Validate(), model)
}
