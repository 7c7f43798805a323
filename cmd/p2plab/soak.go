package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/chaos"
)

// soakFlags are the command line of soak.
type soakFlags struct {
	output
	cfg chaos.SoakConfig
}

func newSoak() *cobra.Command {
	f := &soakFlags{}
	f.cfg.Mode, f.cfg.Kinds = p2pdiloco.ModeSync, slices.Clone(chaos.SoakKinds)
	cmd := &cobra.Command{
		Use:   "soak",
		Short: "Hurt a swarm for a while, and compare it with an undisturbed one beside it",
		Long: fmt.Sprintf(`Run two swarms of real processes beside each other on this machine: one is hurt at
random times drawn from a seed, the other one is not. Print the slots and tokens of both.

The checks of p2plab chaos must hold for both, and the swarm that is hurt must do at least %.0f%% of the
other's slots and %.0f%% of its tokens: the exit status is 0 only then. At most as many peers are down
at a time as the trust tolerates. Faults that are due while no peer may be hurt wait.`,
			100*chaos.GoalSlots, 100*chaos.GoalTokens),
		Example: `  p2plab soak --minutes 30 --faults-per-hour 120
  p2plab soak --minutes 30 --trust byzantine --json >soak.json`,
		Args: cli.NoArgs,
		RunE: f.run,
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.Float64Var(&f.cfg.Minutes, "minutes", 30, "that slots are counted")
	fs.IntVar(&f.cfg.FaultsPerHour, "faults-per-hour", 120, "faults in an hour, one in each interval")
	fs.IntVar(&f.cfg.Peers, "peers", 6, "peers of each swarm")
	fs.StringVar(&f.cfg.Trust, "trust", p2pdiloco.TrustCrash, "`what` the runs withstand: crash or byzantine")
	fs.Var(&f.cfg.Kinds, "faults", "`kinds` of faults, see p2plab chaos --help")
	fs.Uint64Var(&f.cfg.Seed, "seed", 1, "of the schedule")
	f.flags(fs, "the peers' data, logs and events")
	return cmd
}

func (f *soakFlags) run(cmd *cobra.Command, _ []string) error {
	if err := errors.Join(f.cfg.Validate(), f.unused("faulted", "control")); err != nil {
		return cli.UsageError(err)
	}
	return f.output.run(cmd, &f.cfg.Setting, func(ctx context.Context) (any, bool, error) {
		result, err := chaos.Soak(ctx, f.cfg)
		return result, result.Met, err
	})
}
