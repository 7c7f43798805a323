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
	"github.com/p2pdiloco/p2pdiloco/internal/api"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// motion is the command line of remove, readmit or rotate.
type motion struct {
	operator
	action string
	yes    bool // of remove
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

PEER is the peer's ID, or the end of it that p2pdiloco status shows of a member. A peer that is no member,
because it has left, say, is kept out with its whole ID and --yes.

p2pdiloco readmit withdraws the motion, or readmits the peer.`,
		Example: `  p2pdiloco remove 12D3KooWAbc…
  p2pdiloco remove zRvShC --data-dir ~/run1`,
	})
}

func newReadmit() *cobra.Command {
	return newMotion("readmit", &cobra.Command{
		Use:   "readmit PEER",
		Short: "Withdraw a motion to remove a peer, or readmit a removed one",
		Long: `Undo remove: withdraw this peer's motion; or, if the peer is removed already, ask the members to let it
in again. PEER is the peer's ID, or the end of it where p2pdiloco status shows that peer.
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
	cmd.Args = cli.Args
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return c.move(cmd.Context(), cmd.OutOrStdout(), strings.Join(args, ""))
	}
	c.Register(cmd.Flags())
	if action == slot.Remove.String() {
		cmd.Flags().BoolVar(&c.yes, "yes", false, "remove a peer that is no member, too")
	}
	return cmd
}

func (c *motion) move(ctx context.Context, out io.Writer, given string) error {
	if _, err := slot.ParsePeerID(given); err != nil && given != "" && len(given) != shortName {
		return cli.UsageError(notNamed(given))
	}
	peer, err := c.ask(ctx)
	if err != nil {
		return err
	}
	var about p2pdiloco.PeerID
	if given != "" {
		if about, err = c.about(given, peer.Status); err != nil {
			return cli.UsageError(err)
		}
	}
	if err := peer.Move(ctx, c.action, about.String()); err != nil {
		return err
	}
	text, err := c.became(ctx, peer.Client, about)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, text)
	return err
}

// about returns the peer that is named by its ID, or by the end of the ID of one that the status
// shows. It refuses to remove a peer that is no member until told twice: of a mistyped ID the wrong
// peer is kept out, and the right one stays.
func (c *motion) about(given string, s p2pdiloco.Status) (p2pdiloco.PeerID, error) {
	known := slices.Clone(s.Removed)
	for _, m := range s.Members {
		known = append(known, m.Peer)
	}
	for _, o := range s.Motions {
		known = append(known, o.Peer)
	}
	slices.Sort(known)
	known = slices.Compact(known)
	p, err := slot.ParsePeerID(given)
	if err != nil || len(p) < slot.MinPeerIDLen {
		return named(given, known)
	}
	if c.action == slot.Remove.String() && !c.yes && !slices.Contains(known, p) {
		return "", fmt.Errorf("%s is no member of run %s, and nothing was done: p2pdiloco status shows the members. "+
			"To keep out a peer that is none, repeat the command with --yes", p, s.Run)
	}
	return p, nil
}

// named returns the one peer whose short name is given.
func named(given string, known []p2pdiloco.PeerID) (p2pdiloco.PeerID, error) {
	found := slices.DeleteFunc(known, func(p p2pdiloco.PeerID) bool { return p == "" || p.Short() != given })
	switch len(found) {
	case 0:
		return "", notNamed(given)
	case 1:
		return found[0], nil
	}
	return "", fmt.Errorf("%q is the end of several IDs: give the ID of one: %s", given, found)
}

// shortName is how many characters PeerID.Short has.
const shortName = 6

func notNamed(given string) error {
	return fmt.Errorf("%q is not a peer ID, like 12D3Koo…, nor the end of one that p2pdiloco status shows: "+
		"p2pdiloco status --json shows the IDs of the members", given)
}

// shown is how long a motion may take to be seen in the peer's own status.
const shown = 2 * time.Second

// became says what the peer makes of the motion, as soon as that can be seen.
func (c *motion) became(ctx context.Context, peer api.Client, about p2pdiloco.PeerID) (string, error) {
	for end := time.Now().Add(shown); ; time.Sleep(shown / 20) {
		var s p2pdiloco.Status
		if _, err := peer.Get(ctx, &s); err != nil {
			return "", err
		}
		for _, o := range s.Motions {
			if o.Action == c.action && (about == "" || o.Peer == about) {
				return "moved: " + motionText(o, len(s.Members)), nil
			}
		}
		removed := slices.Contains(s.Removed, about)
		switch {
		case c.action == "remove" && removed:
			return "done: " + about.String() + " is removed from the run", nil
		case c.action == "readmit" && !removed:
			return "done: " + about.String() + " is not removed from the run, and this peer has no motion to " +
				"remove it", nil
		case time.Now().After(end):
			return "moved; p2pdiloco status shows what becomes of the motion", nil
		}
	}
}

// motionText says what a motion is for, and how many members have it.
func motionText(o p2pdiloco.MotionStatus, members int) string {
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
