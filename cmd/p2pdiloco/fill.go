package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/p2pdiloco/p2pdiloco/internal/sources"
)

const configUsage = "TOML or .json `file` for flags that are not given, with _ for -: inner_steps = 100 for --inner-steps. " +
	"In the environment that is P2PDILOCO_INNER_STEPS=100, which wins over the file"

// fill gives a command's flags that were not given what the environment and the config file say.
func fill(cmd *cobra.Command, stderr io.Writer) error {
	if cmd.Hidden { // cobra's, for shells
		return nil
	}
	known, environ := flagsOf(cmd.Root()), os.Environ()
	for _, warning := range sources.Mistyped(environ, known) {
		fmt.Fprintf(stderr, "p2pdiloco: %s\n", warning)
	}
	if err := sources.Fill(cmd.Flags(), known, sources.Environment(environ)); err != nil {
		return usageError(err)
	}
	return nil
}

// flagsOf are the names of all flags of all commands.
func flagsOf(root *cobra.Command) sources.Known {
	known := sources.Known{}
	add := func(f *pflag.Flag) { known[f.Name] = known[f.Name] || !f.Hidden }
	root.PersistentFlags().VisitAll(add)
	for _, cmd := range commandsOf(root) {
		cmd.LocalNonPersistentFlags().VisitAll(add)
	}
	delete(known, "help")
	return known
}

// commandsOf are the commands below one that do something themselves.
func commandsOf(parent *cobra.Command) (all []*cobra.Command) {
	for _, cmd := range parent.Commands() {
		switch {
		case cmd.Name() == "help", cmd.Hidden: // cobra's own
		case cmd.HasSubCommands():
			all = append(all, commandsOf(cmd)...)
		default:
			all = append(all, cmd)
		}
	}
	return all
}
