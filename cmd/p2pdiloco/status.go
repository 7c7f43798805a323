package main

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/internal/doctor"
)

// showTrust is the value of --trust. A setting has that name, too, and the environment may hold it.
const showTrust = "shown"

func newStatus() *cobra.Command {
	var operator operator
	var asJSON bool
	var trust string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what a peer on this machine knows of its run",
		Long: `Show what a peer on this machine knows of its run: how far it is, what its slots take of time and
bytes, and who the members are. --trust adds the state root, how many members may be gone and how many
may lie about the agreement at the run's present size (agreement), how many may send wrong values (bad
values), and all figures. --data-dir names the peer; without it the one peer that runs here is asked,
whoever started it.`,
		Example: `  p2pdiloco status
  p2pdiloco status --data-dir ~/run1 --json`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return showStatus(cmd.Context(), cmd.OutOrStdout(), operator, asJSON, trust == showTrust)
		},
	}
	operator.Register(cmd.Flags())
	cmd.Flags().StringVar(&trust, "trust", "", "show whom one has to trust, and all figures")
	cmd.Flags().Lookup("trust").NoOptDefVal = showTrust
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the peer's JSON document")
	return cmd
}

func showStatus(ctx context.Context, out io.Writer, operator operator, asJSON, all bool) error {
	var s p2pdiloco.Status
	peer, err := operator.find(ctx)
	var raw []byte
	if err == nil {
		raw, err = peer.Get(ctx, &s)
	}
	if err != nil && operator.Dir != "" {
		if _, _, fault := (doctor.Host{}).Sync(operator.Dir); fault != nil {
			err = fmt.Errorf("%w\nno peer can work in that directory as it is: %v", err, fault)
		}
	}
	if err != nil {
		return err
	}
	if asJSON {
		_, err = out.Write(append(bytes.TrimSpace(raw), '\n'))
		return err
	}
	return printStatus(out, s, all)
}
