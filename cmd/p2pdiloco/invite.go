package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/internal/api"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
	"github.com/p2pdiloco/p2pdiloco/internal/ticket"
)

// invitation is one invite command.
type invitation struct {
	operator
	ttl  time.Duration
	uses int
	wait bool
}

func newInvite() *cobra.Command {
	o := &invitation{ttl: p2pdiloco.DefaultTTL}
	cmd := &cobra.Command{
		Use:   "invite",
		Short: "Print a ticket with which others can join the run of a peer on this machine",
		Long: `Print a ticket with which others can join the run of a peer on this machine: one line of text, all
that p2pdiloco join needs. It names several members, so that it outlives any one of them, and pins
the newest agreed record that changed who votes, so that a peer that joins with it cannot be led to
another run.

The ticket of a private run admits anybody who has it, as many as --uses says and as long as --ttl says:
keep it secret.`,
		Example: `  p2pdiloco invite
  p2pdiloco invite --ttl 24h --data-dir ~/run1
  p2pdiloco invite --wait > ticket.txt
  ssh gpu1 p2pdiloco invite | p2pdiloco join -`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.order(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.Register(cmd.Flags())
	cmd.Flags().Var(sources.Var(&o.ttl, "time", readLifetime, lifetime), "ttl",
		"how long the ticket is good, like 12h or 7d")
	cmd.Flags().BoolVar(&o.wait, "wait", false, "wait until a peer runs here and is in a run")
	cmd.Flags().IntVar(&o.uses, "uses", 0, "`newcomers` that it admits to a private run (default 1)")
	return cmd
}

// order prints the ticket on stdout, and nothing else there, for scripts.
func (o *invitation) order(ctx context.Context, stdout, stderr io.Writer) error {
	if o.ttl < time.Second || o.ttl > p2pdiloco.MaxTTL {
		return cli.UsageError(sources.Faultf("ttl", lifetime(o.ttl), "allowed: 1s to %s", lifetime(p2pdiloco.MaxTTL)))
	}
	if o.uses < 0 || o.uses > ticket.MaxUses {
		return cli.UsageError(sources.Faultf("uses", o.uses, "allowed: 1 to %d", ticket.MaxUses))
	}
	peer, err := o.peer(ctx, stderr)
	if err != nil {
		return err
	}
	text, err := peer.Invite(ctx, api.Invitation{TTL: o.ttl, Uses: o.uses})
	if err != nil {
		return err
	}
	t, err := ticket.Parse(text)
	if err != nil {
		return err
	}
	fmt.Fprint(stderr, about(t))
	_, err = fmt.Fprintln(stdout, text)
	return err
}

const (
	waitAgain = 300 * time.Millisecond // between two looks at the peer
	waitTells = 10 * time.Second       // between two lines that say what is waited for
)

// peer finds the peer to ask. With --wait it waits until there is one that is a member of a run.
func (o *invitation) peer(ctx context.Context, stderr io.Writer) (peer localPeer, err error) {
	var told time.Time
	for {
		if !o.wait {
			return o.find(ctx)
		}
		if peer, err = o.ask(ctx); err == nil && len(peer.Status.Members) == 0 {
			err = errors.New("the peer is still looking for the run")
		}
		if err == nil || errors.Is(err, errSeveral) || errors.Is(err, fs.ErrPermission) ||
			errors.Is(err, api.ErrToken) || cli.IsUsage(err) {
			return peer, err
		}
		if time.Since(told) >= waitTells {
			told = time.Now()
			fmt.Fprintf(stderr, "waiting: %v\n", err)
		}
		select {
		case <-ctx.Done():
			return peer, ctx.Err()
		case <-time.After(waitAgain):
		}
	}
}

// about says what a ticket is good for, and for how long.
func about(t ticket.Ticket) string {
	s := fmt.Sprintf("run %s, record %d pinned, %d addresses, good until %s; others join with: p2pdiloco join -, and "+
		"paste it there\n", t.Run, t.Height, len(t.Addrs), t.Expires.Local().Format(time.RFC1123))
	if t.Token != nil {
		s += fmt.Sprintf("it admits %d to a private run: keep it secret, also from other users of a machine, who can "+
			"read command lines\n", t.Token.Uses)
	}
	return s + [...]string{
		"all its addresses are of this machine: it is of no use on other machines\n",
		"all its addresses are of the local network: elsewhere it is of no use, unless a peer can be reached " +
			"from there (join --announce) or through a relay (bootstrap --relay, and join --bootstrap with its " +
			"address)\n",
		"",
	}[farthest(t.Addrs)]
}

// From where an address can be reached.
const (
	thisMachine = iota
	thisNetwork
	everywhere
)

// farthest says from where the best of some multiaddrs can be reached.
func farthest(addrs []string) (far int) {
	for _, a := range addrs {
		parts := strings.SplitN(a, "/", 4)
		if len(parts) < 3 {
			continue
		}
		ip, err := netip.ParseAddr(parts[2])
		switch {
		case err == nil && ip.IsLoopback():
		case err == nil && (ip.IsPrivate() || ip.IsLinkLocalUnicast()):
			far = max(far, thisNetwork)
		default: // also a host name
			far = everywhere
		}
	}
	return far
}

const day = 24 * time.Hour

// readLifetime reads a duration that may be given in days, like 7d.
func readLifetime(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			return time.Duration(n) * day, nil
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, errors.New("allowed: days or hours, like 7d or 12h")
	}
	return d, nil
}

func lifetime(d time.Duration) string {
	if d >= day && d%day == 0 {
		return strconv.Itoa(int(d/day)) + "d"
	}
	return d.String()
}
