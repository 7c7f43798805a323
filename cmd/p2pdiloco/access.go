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
	"github.com/p2pdiloco/p2pdiloco/internal/api"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// change is one command about who may be in the run.
type change struct {
	action    string
	addr, dir string
}

const howChanges = `
It happens once a quorum of the members has been given the same order, each by its own operator or by
following this peer (p2pdiloco join --follow); with two members, the one that was there first decides.
The order stands until then, also while the peer is down. p2pdiloco status shows what is ordered, and
by whom.`

func newRemove() *cobra.Command {
	return newChange("remove", "remove PEER", "Order a peer out of the run, and keep it out", `Order a peer out of the run, and keep it out: it is no member any more, what it sends counts for nothing, and it
cannot come back, whatever ticket it has. In a private run the admission secret changes, too: tickets
that were given out before admit nobody any more.
`+howChanges+`

p2pdiloco readmit takes the order back, or the peer.`, `  p2pdiloco remove 12D3KooWAbc…
  p2pdiloco remove 12D3KooWAbc… --data-dir ~/run1`)
}

func newReadmit() *cobra.Command {
	return newChange("readmit", "readmit PEER", "Take back an order to remove a peer, or let a removed one in again", `Take back this peer's order to remove another one; or, if that one is removed already, let it in again.
`+howChanges, `  p2pdiloco readmit 12D3KooWAbc…`)
}

func newRotate() *cobra.Command {
	return newChange("rotate", "rotate", "Order another admission secret for a private run", `Order another admission secret for a private run: tickets that were given out before admit nobody any more.
Members stay, and learn the new secret from each other, also those that are down meanwhile.
`+howChanges, `  p2pdiloco rotate`)
}

func newChange(action, use, short, long, example string) *cobra.Command {
	c := &change{action: action}
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long, Example: example,
		Args: func(_ *cobra.Command, args []string) error {
			if want := len(strings.Fields(use)) - 1; len(args) != want {
				return usageError(fmt.Errorf("%d arguments, want %d: p2pdiloco %s", len(args), want, use))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.order(cmd.Context(), cmd.OutOrStdout(), strings.Join(args, ""))
		},
	}
	cmd.Flags().StringVar(&c.addr, "api", "", "`address` of the peer's API, if it is unix:PATH (default: as its data folder says)")
	cmd.Flags().StringVar(&c.dir, "data-dir", "", "`folder` of the peer's data (default: that of the one running peer with a default folder)")
	return cmd
}

func (c *change) order(ctx context.Context, out io.Writer, about string) error {
	if about != "" {
		if p, err := slot.ParsePeerID(about); err != nil || len(p) < slot.MinPeerIDLen {
			return usageError(fmt.Errorf("%q is no peer ID, like 12D3Koo…: p2pdiloco status --json shows those of the members", about))
		}
	}
	addr, token, err := orderee(ctx, c.addr, c.dir)
	if err != nil {
		return err
	}
	if err := api.Order(ctx, addr, token, c.action, about); err != nil {
		return err
	}
	text, err := c.became(ctx, addr, about)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, text)
	return err
}

// shown is how long an order may take to be seen in the peer's own status.
const shown = 2 * time.Second

// became says what the peer makes of the order, as soon as that can be seen.
func (c *change) became(ctx context.Context, addr api.Address, about string) (string, error) {
	for end := time.Now().Add(shown); ; time.Sleep(shown / 20) {
		var s p2pdiloco.Status
		if _, err := api.Get(ctx, addr, &s); err != nil {
			return "", err
		}
		for _, o := range s.Orders {
			if o.Action == c.action && (about == "" || o.Peer.String() == about) {
				return "ordered: " + orderText(o, len(s.Members)), nil
			}
		}
		removed := slices.ContainsFunc(s.Removed, func(p p2pdiloco.PeerID) bool { return p.String() == about })
		switch {
		case c.action == "remove" && removed:
			return "done: " + about + " is removed from the run", nil
		case c.action == "readmit" && !removed:
			return "done: " + about + " is not removed from the run, and this peer does not ask for that", nil
		case time.Now().After(end):
			return "ordered; p2pdiloco status shows what comes of it", nil
		}
	}
}

// orderText says who has ordered what.
func orderText(o p2pdiloco.OrderStatus, members int) string {
	what := o.Action
	switch {
	case o.Peer == "":
		what += " the secret"
	default:
		what += " " + o.Peer.String()
	}
	state := "more of them must order it, too"
	if o.Enough {
		state = "enough: it is being recorded"
	}
	return fmt.Sprintf("%s: ordered at %d of %d members, %s", what, len(o.By), members, state)
}
