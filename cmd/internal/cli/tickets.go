package cli

import (
	"context"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
)

// inviteAgain is how often a peer looks whether its run has a record that a ticket can name.
const inviteAgain = 250 * time.Millisecond

// invite prints, once the run has begun here, a ticket and what to do next.
func (p *participant) invite(ctx context.Context, node *p2pdiloco.Node) {
	for {
		ticket, err := node.Invite(ctx, p2pdiloco.InviteOptions{})
		if err == nil {
			f := fields{"ticket": ticket, "data_dir": Quote(p.collect.dataDir())}
			if node.Spec().Access == p2pdiloco.AccessPrivate {
				f["private"] = messages["ticket/private"]
			}
			p.say("%s", message("ticket", f))
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(inviteAgain):
		}
	}
}
