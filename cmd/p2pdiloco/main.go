package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
)

func main() { os.Exit(cli.Execute(newRoot(), os.Args[1:], os.Stdout, os.Stderr)) }

// commands makes each command. Nothing here is shared between two command lines.
var commands = []func() *cobra.Command{
	newDemo,
	func() *cobra.Command { return cli.NewStart(joinsPage) },
	func() *cobra.Command { return cli.NewJoin(joinsPage) },
	cli.NewBootstrap,
	newStatus, newDashboard, newTop, newReport, newDoctor, newExport,
	newInvite, newID, newRemove, newReadmit, newRotate, newRecover,
	newTrainerCheck, newVersion,
}

func newRoot() *cobra.Command {
	root := cli.NewRoot(&cobra.Command{
		Use:   "p2pdiloco",
		Short: "Train one model together, peer to peer, with no server in the middle",
		Long: `p2pdiloco trains one model on many machines that only talk now and then (DiLoCo). Every peer
trains alone for some steps; then the peers combine what they learnt, agree on the result, and
all hold the identical model. Peers come and go at any time; there is no server.

See it work on this machine:
  p2pdiloco demo

Start a run, and join it in another terminal or on another machine:
  p2pdiloco start my-run
  p2pdiloco join TICKET`,
	})
	for _, make := range commands {
		root.AddCommand(make())
	}
	return root
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of the program, its protocol and its arithmetic",
		Args:  cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "p2pdiloco %s, protocol %s, kernel %s\n",
				cli.Version(), p2pdiloco.ProtocolVersion, p2pdiloco.KernelVersion)
			return err
		},
	}
}
