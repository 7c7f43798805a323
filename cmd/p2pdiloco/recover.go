package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
)

func newRecover() *cobra.Command {
	var o operator
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

In a run of trust byzantine with four electors or more it takes more than half of them, or half with
the one that has its vote for longest. With fewer, the members that are missing have to come back.

If they are gone for good, end the peer and found a new run from its newest model, with 'p2pdiloco export'
and 'p2pdiloco join --run NAME --found --init FILE' under a new name: see the second example. The outer
momentum begins at 0 there.

Without --yes the command only says what it would do.`,
		Example: `  p2pdiloco recover
  p2pdiloco recover --data-dir ~/run1 --yes
  p2pdiloco export --data-dir ~/run1 --out model.safetensors && \
    p2pdiloco join --run my-run-2 --found --init model.safetensors --trust byzantine`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return orderRecovery(cmd.Context(), cmd.OutOrStdout(), o, yes)
		},
	}
	o.Register(cmd.Flags())
	cmd.Flags().BoolVar(&yes, "yes", false, "do it, and do not only say what it would do")
	return cmd
}

func orderRecovery(ctx context.Context, out io.Writer, o operator, yes bool) error {
	peer, err := o.ask(ctx)
	if err != nil {
		return err
	}
	if !yes { // with it, the peer itself says
		if err := pointless(peer.Status); err != nil {
			return err
		}
	}
	fmt.Fprint(out, consequences(peer.Status))
	if !yes {
		return cli.ErrNothingDone
	}
	if err := peer.Recover(ctx); err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, "the peer goes on; p2pdiloco status shows how")
	return err
}

// pointless says why a peer in this state has nothing to recover from. One that joins may have: it
// may hold the run's state, and hear no member.
func pointless(s p2pdiloco.Status) error {
	if s.Phase == p2pdiloco.PhasePaused || s.Phase == p2pdiloco.PhaseJoining {
		return nil
	}
	return fmt.Errorf("run %s is %s here, so there is nothing to recover from: recover is for a peer that says "+
		"paused, or joining while no member is heard", s.Run, s.Phase)
}

// consequences says what recovering means for a peer in this state.
func consequences(s p2pdiloco.Status) string {
	reason := ""
	if s.Reason != "" {
		reason = s.Reason + "\n"
	}
	return fmt.Sprintf(`run %s, peer %s: %s at slot %d of %d
%sthis would go on from slot %d without a quorum of its members. If missing members still decide
elsewhere, they do so on another branch; when the branches meet, the one with less work is given up.
`, s.Run, s.Peer.Short(), s.Phase, s.Slot, s.LastSlot, reason, s.Slot)
}
