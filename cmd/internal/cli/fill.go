package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

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
	expand(cmd.Flags())
	return nil
}

// expand takes ~ in paths for the user's home, which no shell has done of --init=~/m, of the
// environment and of a file.
func expand(fs *pflag.FlagSet) {
	home, err := os.UserHomeDir()
	fs.VisitAll(func(f *pflag.Flag) {
		rest, ok := strings.CutPrefix(f.Value.String(), "~/")
		if ok && err == nil && f.Changed && f.Value.Type() != "paths" {
			_ = f.Value.Set(filepath.Join(home, rest)) // it took a path before
		}
	})
}
