package p2pdiloco

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/ticket"
	"github.com/p2pdiloco/p2pdiloco/membership"
)

// What the operator of a peer may ask for: an invitation, another set of members, and to go on
// without a quorum.

// Bounds on an invitation.
const (
	DefaultTTL = 7 * 24 * time.Hour
	MaxTTL     = ticket.MaxTTL

	ticketAddrs = 8 // addresses that a ticket made here has
)

// InviteOptions say what a ticket is good for. The zero value is the usual one.
type InviteOptions struct {
	TTL time.Duration // how long; default DefaultTTL, at most MaxTTL
	// newcomers that it admits to a private run; default 1. An open run admits everybody
	Uses int
}

// Invite makes a ticket for this run: a line of text that is all a newcomer needs (Config.Ticket).
// It pins the newest link that this peer knows (the newest record that is a fork or changed who
// votes, which peers keep for ever), and names several members, so that it outlives any one of
// them.
func (n *Node) Invite(ctx context.Context, o InviteOptions) (string, error) {
	if n.life.Over() {
		return "", n.ended()
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if o.TTL == 0 {
		o.TTL = DefaultTTL
	}
	if o.TTL < time.Second || o.TTL > MaxTTL {
		return "", fmt.Errorf("a ticket for %v: allowed: 1s to %v", o.TTL, MaxTTL)
	}
	if o.Uses < 0 || o.Uses > ticket.MaxUses {
		return "", fmt.Errorf("a ticket for %d newcomers: allowed: 1 to %d", o.Uses, ticket.MaxUses)
	}
	if n.guard == nil && o.Uses != 0 {
		return "", errors.New("the run is open and admits everybody: uses are counted in private runs: leave out " +
			"how many (--uses)")
	}
	v := n.driver.View()
	if v.Tip.Height == 0 {
		return "", errors.New("there is no record to pin yet, for the run has not begun here: ask again in a moment")
	}
	members := slices.DeleteFunc(v.Peers(), func(p PeerID) bool { return p == n.Self() })
	t := ticket.Ticket{
		Run: n.spec.Name, RunID: n.run, Height: v.Tip.Height, Pin: v.Lasting,
		Expires: n.hooks.Now().Add(o.TTL).UTC().Truncate(time.Second),
		Addrs:   n.net.Contacts(append([]PeerID{n.Self()}, members...), ticketAddrs, ticket.Usable),
	}
	if len(t.Addrs) == 0 {
		return "", errors.New("no address is known under which others could find a peer of the run: give this one a " +
			"--listen address")
	}
	if n.guard != nil {
		var err error
		if t.Token, err = n.guard.NewToken(t.Expires, o.Uses); err != nil {
			return "", err
		}
	}
	return t.Encode()
}

// Remove asks the members to remove a peer from the run: it is no member any more and cannot become
// one. In a private run the admission secret changes with it, which voids the tickets given out so
// far. The removal happens once a quorum of the members, the peer itself counted, has asked for it.
func (n *Node) Remove(p PeerID) error {
	switch {
	case p == n.Self():
		return fmt.Errorf("%w: this is the peer itself: it can leave (stop its process)", ErrMotion)
	case len(p) < slot.MinPeerIDLen:
		return fmt.Errorf("%w: %q is no peer ID, like 12D3Koo…", ErrMotion, p)
	}
	return n.motions.Make(slot.Remove, p)
}

// Readmit takes back a removal that this peer has asked for, or asks the members to let a removed
// peer in again.
func (n *Node) Readmit(p PeerID) error { return n.motions.Make(slot.Readmit, p) }

// RotateSecret asks the members for another admission secret, which voids the tickets given out so
// far.
func (n *Node) RotateSecret() error {
	if n.guard == nil {
		return fmt.Errorf("%w: the run is open and has no admission secret to change: only a private one "+
			"has", ErrMotion)
	}
	return n.motions.Make(slot.Rotate, "")
}

// Recover lets this peer go on without a quorum: it forks the run at the newest record that it
// knows. Members that it hears come with it, if they were told to recover, too, or do so by
// themselves. If there are none, it goes alone. Recover does nothing once there is a quorum.
//
// What the others decide meanwhile is another branch. When the branches meet again, the one with
// more work wins; in a run of trust byzantine with four electors or more, a branch that a quorum
// decides wins whatever its work is. Such a run also takes more than half of the electors to
// recover, or half with the senior: with fewer, Recover returns ErrTooFew.
func (n *Node) Recover() error {
	switch v := n.driver.View(); {
	case v.Tip.Height == 0 || !v.NoQuorum:
		return ErrQuorum
	case v.TooFew:
		return fmt.Errorf("%w: %s", ErrTooFew, v.Reason)
	}
	n.driver.Report(membership.ReportRecover{})
	return nil
}
