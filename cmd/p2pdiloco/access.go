package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/cmd/p2pdiloco/internal/local"
	"github.com/p2pdiloco/p2pdiloco/internal/api"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// motion is the command line of remove, readmit or rotate.
type motion struct {
	local.Operator
	action string
}

const howMotions = `
This happens when a quorum of the members has the same motion, each from its own operator or because it
follows this peer (p2pdiloco join --follow); with two members, the senior one decides. The motion stands
until then, also while the peer is down. p2pdiloco status shows the motions and the members that have
them.`

func newRemove() *cobra.Command {
	return newMotion("remove", &cobra.Command{
		Use:   "remove PEER",
		Short: "Remove a peer from the run, and keep it out",
		Long: `Move to remove a peer from the run and keep it out: it is no longer a member, its messages are ignored,
and it cannot come back with any ticket. In a private run the admission secret changes as well, so that
tickets that were made before admit nobody any more.
` + howMotions + `

p2pdiloco readmit withdraws the motion, or readmits the peer.`,
		Example: `  p2pdiloco remove 12D3KooWAbc…
  p2pdiloco remove 12D3KooWAbc… --data-dir ~/run1`,
	})
}

func newReadmit() *cobra.Command {
	return newMotion("readmit", &cobra.Command{
		Use:   "readmit PEER",
		Short: "Withdraw a motion to remove a peer, or readmit a removed one",
		Long: `Withdraw this peer's motion to remove another one; or, if that peer is removed already, move to
readmit it.
` + howMotions,
		Example: `  p2pdiloco readmit 12D3KooWAbc…`,
	})
}

func newRotate() *cobra.Command {
	return newMotion("rotate", &cobra.Command{
		Use:   "rotate",
		Short: "Change the admission secret of a private run",
		Long: `Move to change the admission secret of a private run: tickets that were made before admit nobody any
more. Members stay. They get the new secret from each other, also those that are down meanwhile.
` + howMotions,
		Example: `  p2pdiloco rotate`,
	})
}

// newMotion completes a command whose words after the first are its arguments.
func newMotion(action string, cmd *cobra.Command) *cobra.Command {
	c := &motion{action: action}
	cmd.Args = func(_ *cobra.Command, args []string) error {
		if want := len(strings.Fields(cmd.Use)) - 1; len(args) != want {
			return cli.UsageError(fmt.Errorf("%d arguments were given, and %d are needed: p2pdiloco %s", len(args),
				want,
				cmd.Use))
		}
		return nil
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return c.move(cmd.Context(), cmd.OutOrStdout(), strings.Join(args, ""))
	}
	c.Register(cmd.Flags())
	return cmd
}

func (c *motion) move(ctx context.Context, out io.Writer, about string) error {
	if about != "" {
		if p, err := slot.ParsePeerID(about); err != nil || len(p) < slot.MinPeerIDLen {
			return cli.UsageError(fmt.Errorf("%q is not a peer ID, like 12D3Koo…: p2pdiloco status --json shows "+
				"those of the members", about))
		}
	}
	addr, token, err := c.Peer(ctx)
	if err != nil {
		return err
	}
	if err := api.Move(ctx, addr, token, c.action, about); err != nil {
		return err
	}
	text, err := c.became(ctx, addr, token, about)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, text)
	return err
}

// shown is how long a motion may take to be seen in the peer's own status.
const shown = 2 * time.Second

// became says what the peer makes of the motion, as soon as that can be seen.
func (c *motion) became(ctx context.Context, addr api.Address, token, about string) (string, error) {
	for end := time.Now().Add(shown); ; time.Sleep(shown / 20) {
		var s p2pdiloco.Status
		if _, err := api.Get(ctx, addr, token, &s); err != nil {
			return "", err
		}
		for _, o := range s.Orders {
			if o.Action == c.action && (about == "" || o.Peer.String() == about) {
				return "moved: " + motionText(o, len(s.Members)), nil
			}
		}
		removed := slices.ContainsFunc(s.Removed, func(p p2pdiloco.PeerID) bool { return p.String() == about })
		switch {
		case c.action == "remove" && removed:
			return "done: " + about + " is removed from the run", nil
		case c.action == "readmit" && !removed:
			return "done: " + about + " is not removed from the run, and this peer has no motion to remove it", nil
		case time.Now().After(end):
			return "moved; p2pdiloco status shows what becomes of the motion", nil
		}
	}
}

// motionText says what a motion is for, and how many members have it.
func motionText(o p2pdiloco.OrderStatus, members int) string {
	what := o.Action + " the secret"
	if o.Peer != "" {
		what = o.Action + " " + o.Peer.String()
	}
	state := "which is not a quorum yet"
	if o.Enough {
		state = "a quorum: it is being recorded"
	}
	return fmt.Sprintf("%s: %d of %d members have this motion, %s", what, len(o.By), members, state)
}
