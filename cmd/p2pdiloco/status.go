package main

import (
	"bytes"
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/cmd/p2pdiloco/internal/local"
	"github.com/p2pdiloco/p2pdiloco/internal/api"
)

func newStatus() *cobra.Command {
	var addr string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what a peer on this machine knows of its run",
		Long: `Show what a peer on this machine knows of its run: who the members are, who is late or missing,
the state root, the bytes moved, and how many bad peers the run tolerates. A peer prints where
its API listens when it starts; without --api the one running peer with a default data folder is asked.`,
		Example: `  p2pdiloco status
  p2pdiloco status --api 127.0.0.1:41234 --json`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return showStatus(cmd.Context(), cmd.OutOrStdout(), addr, asJSON)
		},
	}
	cmd.Flags().StringVar(&addr, "api", "", "`address` of the peer's API: a loopback HOST:PORT or unix:PATH")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the peer's JSON document")
	return cmd
}

func showStatus(ctx context.Context, out io.Writer, given string, asJSON bool) error {
	if !local.Names(given) {
		found, _, err := local.Only(ctx)
		if err != nil {
			return err
		}
		given = found
	}
	addr, err := local.Address(given)
	if err != nil {
		return err
	}
	var s p2pdiloco.Status
	raw, err := api.Get(ctx, addr, &s)
	if err != nil {
		return err
	}
	if asJSON {
		_, err = out.Write(append(bytes.TrimSpace(raw), '\n'))
		return err
	}
	return printStatus(out, s)
}
