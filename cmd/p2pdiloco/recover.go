package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/cmd/p2pdiloco/internal/local"
	"github.com/p2pdiloco/p2pdiloco/internal/api"
)

func newRecover() *cobra.Command {
	var addr, dir string
	var yes bool
	cmd := &cobra.Command{
		Use:   "recover",
		Short: "Make a paused peer go on without the members that are missing",
		Long: `Make a paused peer go on without the members that are missing. It forks the run at the newest record
that it has, together with the members in reach that got this command, too, or that continue by
themselves; alone, if there are none. Run it for each paused peer that should go on.

Nothing that was agreed is lost. If the missing members are alive somewhere and go on as well, there
are two branches. When they meet, the one with less work is given up, unless it is 16 slots old or
more: then an operator has to choose. So make sure that they have ended and are not just cut off.

Without --yes the command only says what it would do.`,
		Example: `  p2pdiloco recover
  p2pdiloco recover --data-dir ~/run1 --yes`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return orderRecovery(cmd.Context(), cmd.OutOrStdout(), addr, dir, yes)
		},
	}
	cmd.Flags().StringVar(&addr, "api", "", "`address` of the peer's API, if it is unix:PATH (default: as its data "+
		"folder says)")
	cmd.Flags().StringVar(&dir, "data-dir", "",
		"`folder` of the peer's data (default: that of the one running peer with a default folder)")
	cmd.Flags().BoolVar(&yes, "yes", false, "do it")
	return cmd
}

func orderRecovery(ctx context.Context, out io.Writer, given, dir string, yes bool) error {
	addr, token, err := local.Operated(ctx, given, dir)
	if err != nil {
		return err
	}
	var s p2pdiloco.Status
	if _, err := api.Get(ctx, addr, &s); err != nil {
		return err
	}
	fmt.Fprint(out, consequences(s))
	if !yes {
		return cli.UsageError(fmt.Errorf("nothing was done: repeat the command with --yes to do it"))
	}
	if err := api.Recover(ctx, addr, token); err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, "the peer goes on; p2pdiloco status shows how")
	return err
}

// consequences says what recovering means for a peer in this state.
func consequences(s p2pdiloco.Status) string {
	var b strings.Builder
	fmt.Fprintf(&b, "run %s, peer %s: %s at slot %d of %d\n", s.Run, s.Peer.Short(), s.Phase, s.Slot, s.LastSlot)
	if s.Reason != "" {
		fmt.Fprintf(&b, "%s\n", s.Reason)
	}
	fmt.Fprintf(&b, "this would go on from slot %d without a quorum of the %d members. If missing members still "+
		"decide\n"+
		"elsewhere, they do so on another branch; when the branches meet, the one with less work is given up.\n",
		s.Slot, len(s.Members))
	return b.String()
}
