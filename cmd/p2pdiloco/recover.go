package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/api"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
	"github.com/p2pdiloco/p2pdiloco/internal/statedir"
)

func newRecover() *cobra.Command {
	var addr, dir string
	var yes bool
	cmd := &cobra.Command{
		Use:   "recover",
		Short: "Order a paused peer to go on without the members that are missing",
		Long: `Order a paused peer to go on without the members that are missing. It forks the run at the newest
record that it knows, with the members it hears that are ordered to as well or that continue by
themselves; alone, if there are none. Give the order to each paused peer that is to go on.

Nothing that was agreed is lost. If the missing members are alive somewhere and go on, too, there are
two branches. When they meet, the one with less work is given up, unless it is 16 slots old or more:
then an operator has to choose. So make sure that they are gone, and not just cut off.

Without --yes it only says what it would do.`,
		Example: `  p2pdiloco recover
  p2pdiloco recover --data-dir ~/run1 --yes`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return orderRecovery(cmd.Context(), cmd.OutOrStdout(), addr, dir, yes)
		},
	}
	cmd.Flags().StringVar(&addr, "api", "", "`address` of the peer's API, if it is unix:PATH (default: as its data folder says)")
	cmd.Flags().StringVar(&dir, "data-dir", "", "`folder` of the peer's data (default: that of the one running peer with a default folder)")
	cmd.Flags().BoolVar(&yes, "yes", false, "do it")
	return cmd
}

func orderRecovery(ctx context.Context, out io.Writer, given, dir string, yes bool) error {
	addr, token, err := orderee(ctx, given, dir)
	if err != nil {
		return err
	}
	var s p2pdiloco.Status
	if _, err := api.Get(ctx, addr, &s); err != nil {
		return err
	}
	fmt.Fprint(out, consequences(s))
	if !yes {
		return usageError(fmt.Errorf("nothing was done: repeat the command with --yes to do it"))
	}
	if err := api.Recover(ctx, addr, token); err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, "ordered; p2pdiloco status shows what comes of it")
	return err
}

// orderee is the peer to order, and the secret that it wants to hear.
func orderee(ctx context.Context, given, dir string) (addr api.Address, token string, err error) {
	if dir == "" && !names(given) {
		if given, dir, err = findAPI(ctx); err != nil {
			return addr, "", err
		}
	}
	if dir != "" {
		text, err := os.ReadFile(filepath.Join(dir, statedir.APIFile))
		if err != nil {
			return addr, "", fmt.Errorf("no peer runs with its data in %s: %w", dir, err)
		}
		given = strings.TrimSpace(string(text))
		secret, err := os.ReadFile(filepath.Join(dir, statedir.TokenFile))
		if err != nil {
			return addr, "", fmt.Errorf("the peer's token: %w: orders are for the user whose peer it is", err)
		}
		token = strings.TrimSpace(string(secret))
	}
	if addr, err = api.ParseAddress(given); err != nil {
		return addr, "", usageError(&sources.Fault{Flag: "api", Value: given, Why: err.Error()})
	}
	return addr, token, nil
}

// consequences says what the order means for a peer in this state.
func consequences(s p2pdiloco.Status) string {
	var b strings.Builder
	fmt.Fprintf(&b, "run %s, peer %s: %s at slot %d of %d\n", s.Run, s.Peer.Short(), s.Phase, s.Slot, s.LastSlot)
	if s.Reason != "" {
		fmt.Fprintf(&b, "%s\n", s.Reason)
	}
	fmt.Fprintf(&b, "the order: go on from slot %d without a quorum of the %d members. Members that are missing and still\n"+
		"decide things elsewhere do so on another branch; where the branches meet, the one with less work is given up.\n", s.Slot, len(s.Members))
	return b.String()
}
