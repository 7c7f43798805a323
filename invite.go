package p2pdiloco

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/ticket"
)

// Bounds on an invitation.
const (
	DefaultTTL = 7 * 24 * time.Hour
	MaxTTL     = ticket.MaxTTL

	ticketAddrs = 8 // addresses that a ticket made here has
)

// InviteOptions say what a ticket is good for. The zero value is the usual one.
type InviteOptions struct {
	TTL  time.Duration // how long; default DefaultTTL, at most MaxTTL
	Uses int           // newcomers that it admits to a private run; default 1. An open run admits everybody
}

// Invite makes a ticket for this run: a line of text that is all a newcomer needs (Config.Ticket). It pins the newest certified record that this
// peer knows, and names several members, so that it outlives any one of them.
func (n *Node) Invite(ctx context.Context, o InviteOptions) (string, error) {
	if n.closed.Err() != nil {
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
	if n.doorman == nil && o.Uses != 0 {
		return "", errors.New("the run is open and admits everybody: uses are counted in private runs")
	}
	v := n.driver.View()
	if v.Tip.Height == 0 {
		return "", errors.New("there is no record to pin yet, for the run has not begun here: ask again in a moment")
	}
	members := slices.DeleteFunc(peersOf(v), func(p PeerID) bool { return p == n.Self() })
	t := ticket.Ticket{
		Run: n.spec.Name, RunID: n.run, Height: v.Tip.Height, Pin: v.Tip.Hash(), Expires: time.Now().Add(o.TTL).UTC().Truncate(time.Second),
		Addrs: n.net.Contacts(append([]PeerID{n.Self()}, members...), ticketAddrs, ticket.Usable),
	}
	if len(t.Addrs) == 0 {
		return "", errors.New("no address is known under which others could find a peer of the run: give this one a --listen address")
	}
	if n.doorman != nil {
		var err error
		if t.Token, err = n.doorman.newToken(t.Expires, o.Uses); err != nil {
			return "", err
		}
	}
	return t.Encode()
}

// withTicket fills what the ticket says and was not given. What contradicts it stays, for checkTicket to find.
func (c Config) withTicket() Config {
	if c.Ticket == "" {
		return c
	}
	t, err := ticket.Parse(c.Ticket)
	if err != nil {
		return c
	}
	c.ticket = &t
	if c.Spec.Name == "" {
		c.Spec.Name = t.Run
	}
	if c.Pin.IsZero() {
		c.Pin = t.Pin
	}
	return c
}

// checkTicket finds what is wrong with the ticket, and with what was given beside it.
func (c Config) checkTicket() (errs []error) {
	if c.Ticket == "" {
		return nil
	}
	if c.ticket == nil {
		_, err := ticket.Parse(c.Ticket)
		return []error{err}
	}
	if c.Spec.Name != c.ticket.Run {
		errs = append(errs, fmt.Errorf("Spec.Name is %q, and the ticket is for run %q: give one of them", c.Spec.Name, c.ticket.Run))
	}
	if c.Pin != c.ticket.Pin {
		errs = append(errs, fmt.Errorf("a Pin %s, where the ticket pins %s: give one of them", c.Pin, c.ticket.Pin))
	}
	if c.Found {
		errs = append(errs, errors.New("a ticket, which is for a run that exists, and Found: give one of them"))
	}
	return errs
}

// fitTicket holds the ticket against the data directory. Who was in the run before needs no ticket that is still good.
func (n *Node) fitTicket(known *Spec) error {
	t := n.cfg.ticket
	switch {
	case t == nil:
		return nil
	case known == nil && t.Expired(time.Now()):
		return fmt.Errorf("%w: it expired on %s: ask for a new one (p2pdiloco invite)", ErrTicket, t.Expires.Local().Format(time.RFC1123))
	case known != nil && known.RunID() != t.RunID:
		return fmt.Errorf("%w: it is for another run named %q than the data directory %s: use another directory", ErrTicket, t.Run, n.dir.root)
	}
	return nil
}

// token is what the ticket holds for a private run; nil if there is none.
func (c Config) token() *ticket.Token {
	if c.ticket == nil {
		return nil
	}
	return c.ticket.Token
}

// checkRun holds the spec that a peer told against the ticket.
func (c Config) checkRun(theirs Spec) error {
	if c.ticket == nil || theirs.RunID() == c.ticket.RunID {
		return nil
	}
	return fmt.Errorf("its run is another one of the name %q, with the ID %s where the ticket says %s", theirs.Name, theirs.RunID().Short(), c.ticket.RunID.Short())
}
