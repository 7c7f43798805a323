package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/bench"
)

func main() { os.Exit(cli.Execute(newRoot(), os.Args[1:], os.Stdout, os.Stderr)) }

func newRoot() *cobra.Command {
	return cli.NewRoot(&cobra.Command{
		Use:   "p2plab",
		Short: "Test and measure p2pdiloco with real processes on this machine",
		Long: `p2plab is for engineers who work on p2pdiloco. It starts swarms of real peers on this machine, hurts
them, and measures them. Peers are processes of this program: nothing else has to be built.

  p2plab chaos
  p2plab bench modes`,
	}, newChaos(), newSoak(), newBench(),
		hidden(cli.NewJoin(nil)), hidden(cli.NewBootstrap()), newHostileJoin(),
		hidden(&cobra.Command{
			Use: bench.HiddenCommand, Args: cli.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return bench.ServePeer(cmd.Context()) },
		}))
}

// hidden keeps a command that only this program itself starts out of the help.
func hidden(cmd *cobra.Command) *cobra.Command {
	cmd.Hidden = true
	return cmd
}

func newBench() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure what the ways to train cost, outer steps, the all-reduce",
		Args:  cli.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newModes(), newAllreduce(), newStep())
	return cmd
}
