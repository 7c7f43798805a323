package cli

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/p2pdiloco/p2pdiloco/bridge/settings"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
)

const configUsage = "TOML or .json `file` for flags that are not given, with _ for -: inner_steps = 100 for " +
	"--inner-steps. " +
	"In the environment that is P2PDILOCO_INNER_STEPS=100, which wins over the file"

// fill gives a command's flags that were not given the values of the environment and the config
// file. One file and one environment serve all programs, so both may hold flags of any of them.
func fill(cmd *cobra.Command, stderr io.Writer) error {
	if cmd.Hidden { // cobra's own, and those that a program starts itself with all flags given
		return nil
	}
	known, environ := settings.Known(), os.Environ()
	for _, warning := range sources.Mistyped(environ, known) {
		fmt.Fprintf(stderr, "%s: %s\n", cmd.Root().Name(), warning)
	}
	if err := sources.Fill(cmd.Flags(), known, sources.Environment(environ)); err != nil {
		return UsageError(err)
	}
	return nil
}
