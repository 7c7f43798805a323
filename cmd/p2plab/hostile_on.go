//go:build hostile

package main

import (
	"github.com/spf13/cobra"

	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/node"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/chaos"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/hostile"
)

// hasHostile says that this program can be a hostile peer.
const hasHostile = true

// addHostile adds the process of a hostile peer: join, after the name of an attack and the folder
// that it shares with its judge.
func addHostile(root *cobra.Command) {
	cmd := hidden(node.NewJoin())
	cmd.Use, cmd.Args = chaos.HostileCommand+" ATTACK FOLDER", cobra.ExactArgs(2)
	join := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, err := hostile.With(cmd.Context(), args[0], args[1])
		if err != nil {
			return cli.UsageError(err)
		}
		cmd.SetContext(ctx)
		return join(cmd, nil)
	}
	root.AddCommand(cmd)
}
