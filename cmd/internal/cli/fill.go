package cli

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/p2pdiloco/p2pdiloco/internal/sources"
)

const configUsage = "TOML `file` for flags that are not given, with _ for -: inner_steps = 100 for " +
	"--inner-steps. " +
	"In the environment that is P2PDILOCO_INNER_STEPS=100, which wins over the file"

// Known are the flags of a command and of those below it.
func Known(cmd *cobra.Command) sources.Known {
	known := sources.Known{}
	add(known, cmd)
	return known
}

func add(known sources.Known, cmd *cobra.Command) {
	known.Add(cmd.Flags())
	known.Add(cmd.PersistentFlags())
	for _, below := range cmd.Commands() {
		add(known, below)
	}
}

// fill gives a command's flags that were not given the values of the environment and the config
// file. One file and one environment serve all commands, so both may hold flags of any of them.
func fill(cmd *cobra.Command) error {
	if cmd.Hidden { // cobra's own, and those that a program starts itself with all flags given
		return nil
	}
	if err := sources.Fill(cmd.Flags(), Known(cmd.Root()), sources.Environment(os.Environ())); err != nil {
		return UsageError(err)
	}
	return nil
}
