package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/p2pdiloco/p2pdiloco/bridge/plugin"
	"github.com/p2pdiloco/p2pdiloco/bridge/plugin/check"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
)

// checkFlags are the command line of trainer-check.
type checkFlags struct {
	config        string
	against       []string
	againstConfig string
	steps         int
	seed          uint64
	absolute      float64
	relative      float64
	timeout       time.Duration
	wrap          string
	json          bool
}

func newTrainerCheck() *cobra.Command {
	f := &checkFlags{}
	cmd := &cobra.Command{
		Use:   "trainer-check LIBRARY",
		Short: "Try a trainer from a shared library, and compare it with others",
		Long: `Try a shared library against what bridge/include/p2pdiloco_trainer.h asks of a trainer: that it
loads, that initial parameters follow from the seed, that what is loaded is what is exported,
whole and by ranges, that inner steps say how far they are and can be cancelled, that the
pseudo-gradient is what was loaded less what the parameters are, that its private state can be
saved and restored, and that it ends as it should. One line is printed for each.

With --against, other libraries do the same inner steps from the same parameters, and are
compared tensor by tensor. The exit status is 1 if anything failed.`,
		Example: `  p2pdiloco trainer-check ./libmytrainer.so --trainer-config my.json
  p2pdiloco trainer-check ./libcuda.so --against ./libcpu.so --steps 10 --relative 0.05
  p2pdiloco trainer-check ./libmytrainer.so --wrap "valgrind --leak-check=full --error-exitcode=99"`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.UsageError(fmt.Errorf("%s takes the path of one library (%d were given)", cmd.Name(),
					len(args)))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&f.config, "trainer-config", "", "`file` whose text, JSON, the trainer is made from")
	fs.Var(sources.Paths(&f.against), "against", "`library` to compare with, may be repeated")
	fs.StringVar(&f.againstConfig, "against-config", "",
		"`file` whose text those are made from (default the one of --trainer-config)")
	fs.IntVar(&f.steps, "steps", 4, "inner steps of a round")
	fs.Uint64Var(&f.seed, "seed", 0, "of the initial parameters and of the data's division")
	fs.Float64Var(&f.absolute, "absolute", 1e-6, "tensors are alike if no element differs by more than this")
	fs.Float64Var(&f.relative, "relative", 0.01,
		"tensors are also alike if they differ (L2) by at most this part of how far the tensor has moved")
	fs.DurationVar(&f.timeout, "trainer-timeout", plugin.DefaultTimeout,
		"how long a trainer may make no progress before it counts as hung")
	fs.StringVar(&f.wrap, "wrap", "", "`command` to start the trainer's processes under, with its arguments, like "+
		"valgrind")
	fs.BoolVar(&f.json, "json", false, "print one JSON document at the end, everything else to stderr")
	return cmd
}

func (f *checkFlags) run(cmd *cobra.Command, library string) error {
	cfg, err := f.settings(library)
	if err != nil {
		return err
	}
	stdout, lines := cmd.OutOrStdout(), cmd.OutOrStdout()
	if f.json {
		lines = cmd.ErrOrStderr()
	}
	cfg.Tell = func(l check.Line) { fmt.Fprintln(lines, l) }
	ctx, stop := cli.UntilSignal(cmd.Context(), func() {}, func() { os.Exit(cli.ExitInterrupted) })
	defer stop()
	report, err := check.Run(ctx, cfg)
	if err != nil {
		return cli.ErrInterrupted
	}
	if f.json {
		err = json.NewEncoder(stdout).Encode(report)
	}
	if err == nil && !report.OK {
		err = fmt.Errorf("%s failed some checks: see the lines that start with failed", library)
	}
	return err
}

func (f *checkFlags) settings(library string) (cfg check.Config, err error) {
	if f.steps < 1 || !(f.absolute >= 0) || !(f.relative >= 0) || f.timeout <= 0 {
		return cfg, cli.UsageError(errors.New("--steps must be at least 1, --trainer-timeout above 0, and --absolute " +
			"and --relative 0 or more"))
	}
	mine, err := cli.ReadText("trainer-config", f.config)
	if err != nil {
		return cfg, err
	}
	theirs := mine
	if f.againstConfig != "" {
		if theirs, err = cli.ReadText("against-config", f.againstConfig); err != nil {
			return cfg, err
		}
	}
	at := func(path, text string) plugin.Config {
		return plugin.Config{Path: path, Config: text, Seed: f.seed, Timeout: f.timeout, Wrap: strings.Fields(f.wrap)}
	}
	cfg = check.Config{Library: at(library, mine), Steps: f.steps, Absolute: f.absolute, Relative: f.relative}
	for _, path := range f.against {
		cfg.Against = append(cfg.Against, at(path, theirs))
	}
	return cfg, nil
}
