package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/internal/lab"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/linkd"
)

func newLab() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lab",
		Short: "Keep a network of namespaces, with links that can be slowed and cut",
		Long: `Keep a network of Linux network namespaces on this machine, one a node, and change it while programs
run on its nodes. It needs root. examples/lab/lab.sh runs a whole swarm on it.`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		&cobra.Command{
			Use:   "up NODES SOCKET [KEY=VALUE...]",
			Short: "Make the nodes n1, n2, ..., and take commands at a socket until one says down",
			Long: `Make nodes n1, n2, ... and print a line for each, with its namespace and address, then "ready". The
network lives until the command down, SIGINT or SIGTERM. Settings are those of every link (rate=200mbit,
delay=25ms, jitter=5ms, loss=1%, queue=BYTES, reorder=true) and of the network (mtu=1500, seed=1,
network=10.213.0.0/16).`,
			Args: atLeast(2),
			RunE: func(cmd *cobra.Command, args []string) error {
				ctx, stop := cli.OrExit(cmd.Context())
				defer stop()
				return linkd.Up(ctx, args[0], args[1], args[2:], cmd.OutOrStdout())
			},
		},
		&cobra.Command{
			Use:   "do SOCKET COMMAND...",
			Short: "Give the network a command: nodes, link, pair, cut, cutpair, partition, heal, stats, down",
			Long: `Give the network behind a socket one command, and print the answer:

  nodes                      name, namespace and address of each node
  link NODE...|all KEY=...   change links: rate, delay, jitter, loss, queue; other settings stay
  pair NODE NODE [KEY=...]   put a further link between two nodes; without settings, remove it
  cut NODE...                unplug nodes
  cutpair NODE NODE          keep two nodes from reaching each other
  partition N1,N2 N3,...     groups that cannot reach each other; nodes not named form one more
  heal [NODE...]             end the cuts of these nodes, or all cuts
  stats                      packets and bytes by node
  down                       end the network`,
			Args: atLeast(2),
			RunE: func(cmd *cobra.Command, args []string) error {
				return linkd.Ask(cmd.Context(), args[0], strings.Join(args[1:], " "), cmd.OutOrStdout())
			},
		},
		&cobra.Command{
			Use:   "clean",
			Short: "Remove the namespaces that crashed labs left",
			Args:  cli.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				removed, err := lab.Clean(lab.DefaultName)
				for _, name := range removed {
					fmt.Fprintln(cmd.OutOrStdout(), "removed", name)
				}
				return err
			},
		},
	)
	return cmd
}

// atLeast wants so many arguments or more.
func atLeast(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < n {
			return cli.UsageError(fmt.Errorf("%d arguments are too few: %s", len(args), cmd.UseLine()))
		}
		return nil
	}
}
