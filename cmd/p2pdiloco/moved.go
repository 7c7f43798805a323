package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
)

// The commands for engineers of this project are in p2plab. Scripts that use their old names are
// told so.

func newMovedChaos() *cobra.Command { return moved("chaos") }

func newMovedBench() *cobra.Command { return moved("bench") }

func moved(name string) *cobra.Command {
	return &cobra.Command{
		Use:                name,
		Hidden:             true,
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			command := name
			if name == "bench" && len(args) > 0 && !strings.HasPrefix(args[0], "-") {
				command += " " + args[0]
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "p2pdiloco: %[1]s is a command of p2plab now: p2plab %[1]s, or, in this "+
				"repository, go run ./cmd/p2plab %[1]s\n", command)
			return cli.ErrUsage
		},
	}
}
