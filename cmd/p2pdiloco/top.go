package main

import (
	"context"
	"errors"
	"io"
	"os"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/internal/view"
)

func newTop() *cobra.Command {
	var operator operator
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show the whole run in this terminal, as it goes",
		Long: `Show the run of a peer on this machine in the terminal, as it goes: what is waited for, the loss, the
members and how each is reached, the bytes, the agreement, and what happened. The arrows move in the
members, s sorts them by the next column, r the other way round, q ends it; the peer goes on.`,
		Example: `  p2pdiloco top
  p2pdiloco top --data-dir ~/run1`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return showTop(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), operator)
		},
	}
	operator.Register(cmd.Flags())
	return cmd
}

func showTop(ctx context.Context, in io.Reader, out io.Writer, operator operator) error {
	if file, is := out.(*os.File); !is || !term.IsTerminal(int(file.Fd())) {
		return cli.UsageError(errors.New("top: the output is no terminal: p2pdiloco status prints the same once"))
	}
	ctx, stop := cli.OrExit(ctx)
	defer stop()
	if _, err := operator.find(ctx); err != nil {
		return err
	}
	p := &watched{operator: operator}
	w, unwatch := p.watch(ctx)
	defer unwatch()
	err := view.RunScreen(ctx, w, tea.WithInput(in), tea.WithOutput(out))
	return cli.Interrupted(ctx, err)
}
