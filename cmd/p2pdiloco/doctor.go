package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/bridge/peer"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/internal/api"
	"github.com/p2pdiloco/p2pdiloco/internal/doctor"
	"github.com/p2pdiloco/p2pdiloco/internal/ticket"
)

// doctorFlags are the command line of doctor.
type doctorFlags struct {
	operator
	run       string
	bootstrap []string
	timeout   time.Duration
	json      bool

	ticket *ticket.Ticket // nil: none was given
}

func newDoctor() *cobra.Command {
	f := &doctorFlags{timeout: 20 * time.Second}
	cmd := &cobra.Command{
		Use:   "doctor [TICKET]",
		Short: "Find out what keeps a peer on this machine from a run, or makes it slow",
		Long: `Check this machine (disk, fsync, limits) and the connections to other peers: whether the bootstrap
addresses answer, at which address others see this machine, what its NAT does, how each member is
reached and how fast, and how long a round's exchange will take beside its inner steps. Each finding
says what to do about it.

If a peer runs here, it does the checks: it sends 4 MiB to each member and receives as much. Otherwise a
temporary peer looks at the run that a ticket (or @FILE, or - for one), or --run and --bootstrap, name;
it takes no part in it.

The exit status is 1 if something fails.`,
		Example: `  p2pdiloco doctor
  p2pdiloco doctor p2pdiloco1ai...
  p2pdiloco doctor --run my-run --bootstrap /ip4/192.0.2.1/tcp/4001/p2p/12D3Koo... --json`,
		Args: func(cmd *cobra.Command, args []string) error { return f.takeTicket(cmd, args) },
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.examine(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&f.run, "run", "", "`name` of the run to look at (default: the ticket's, or that of the peer that "+
		"runs here)")
	fs.StringArrayVar(&f.bootstrap, "bootstrap", nil,
		"`multiaddr` ending in /p2p/PEER to start from, may be repeated (default: the ticket's, and the local "+
			"network with mDNS)")
	fs.StringVar(&f.API, "api", "", "`address` of a running peer's API (default: that of the one peer that "+
		"runs here, if there is one)")
	fs.StringVar(&f.Dir, "data-dir", "", "`directory` with the peer's data, existing or not")
	fs.DurationVar(&f.timeout, "timeout", f.timeout, "how long to look for the run's peers")
	fs.BoolVar(&f.json, "json", false, "print one JSON document to stdout")
	return cmd
}

// takeTicket reads the optional argument.
func (f *doctorFlags) takeTicket(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	text := strings.Join(args, "") // a copy may have line breaks
	text, err := peer.ReadTicket(text, cmd.InOrStdin())
	if err != nil {
		return cli.UsageError(err)
	}
	t, err := ticket.Parse(text)
	if err != nil {
		return cli.UsageError(fmt.Errorf("%s: %w", cmd.Name(), err))
	}
	f.ticket = &t
	return nil
}

// settle takes over the ticket's run and addresses.
func (f *doctorFlags) settle() (all []doctor.Finding) {
	if f.ticket == nil {
		return nil
	}
	f.run = cmp.Or(f.run, f.ticket.Run)
	f.bootstrap = slices.Concat(f.bootstrap, f.ticket.Addrs)
	found := doctor.Found("ticket", doctor.OK,
		fmt.Sprintf("for run %s, with %d addresses", f.ticket.Run, len(f.ticket.Addrs)), "")
	if f.ticket.Expired(time.Now()) {
		found = doctor.Found("ticket", doctor.Fail, "it expired at "+f.ticket.Expires.Format(time.RFC3339),
			"ask for another one, and see whether this machine's clock is right")
	}
	return []doctor.Finding{found}
}

func (f *doctorFlags) examine(ctx context.Context, stdout, stderr io.Writer) error {
	ctx, stop := cli.OrExit(ctx)
	defer stop()
	findings, look, err := f.findings(ctx, stderr)
	if err != nil {
		return err
	}
	if f.json {
		err = cli.PrintJSON(stdout, struct {
			Worst    doctor.Level     `json:"worst"`
			Findings []doctor.Finding `json:"findings"`
			*doctor.View
		}{doctor.Worst(findings), findings, look.view})
	} else {
		doctor.Print(stdout, findings)
	}
	if err == nil && doctor.Worst(findings) == doctor.Fail {
		err = cli.ErrFailed
	}
	return err
}

// findings are all that the doctor has to say, and what it has examined.
func (f *doctorFlags) findings(ctx context.Context, stderr io.Writer) ([]doctor.Finding, *look, error) {
	findings := f.settle()
	look, err := f.look(ctx, stderr)
	if err != nil {
		return nil, nil, err
	}
	findings = slices.Concat(findings, doctor.Local(doctor.Host{}, look.dir, look.need), look.extra)
	if look.view != nil {
		findings = slices.Concat(findings, look.view.Check())
	}
	return findings, look, nil
}

// look is what doctor examines.
type look struct {
	dir   string
	need  doctor.Need
	view  *doctor.View // nil: of this machine alone
	extra []doctor.Finding
}

// look asks the peer that runs here, or looks from outside if there is none. Where a peer runs that
// gives no status, and nothing names another run to look at, it is this machine that is examined.
func (f *doctorFlags) look(ctx context.Context, stderr io.Writer) (*look, error) {
	p, mute, err := f.peer(ctx)
	if err != nil {
		return nil, err
	}
	l := &look{dir: f.Dir}
	for _, m := range mute {
		l.extra = append(l.extra, muteFinding(m))
	}
	if err := otherVersion(f.Dir); f.Dir != "" && err != nil {
		l.extra = append(l.extra, doctor.Found("version", doctor.Fail, err.Error(),
			"finish that run with such a release, or take part in another one with another data directory"))
	}
	if p != nil {
		fmt.Fprintf(stderr, "asking the peer that runs here, %s of run %s; it probes its members\n",
			p.Status.Peer.Short(), p.Status.Run)
		lookInside(ctx, l, p, f.bootstrap)
		return l, nil
	}
	if l.dir == "" {
		if l.dir, err = peer.BaseDir(); err != nil {
			return nil, err
		}
	}
	who := "no peer of the run is running here"
	if len(mute) > 0 {
		who = "the peer that runs here gives no status"
		if f.run == "" && len(f.bootstrap) == 0 {
			fmt.Fprintf(stderr, "%s: looking at this machine alone\n", who)
			return l, nil
		}
	}
	fmt.Fprintf(stderr, "%s: looking at the run from outside for up to %s\n", who, f.timeout)
	return l, f.lookOutside(ctx, l)
}

// muteFinding is what is said of a peer that runs and gives no status.
func muteFinding(p localPeer) doctor.Finding {
	if timeout, ok := errors.AsType[net.Error](p.Mute); ok && timeout.Timeout() {
		return doctor.Found("peer", doctor.Fail, p.Told().Error(), "see whether its process is stopped or waits for a "+
			"disk (ps: state T or D); if it stays so, kill it and start it again with its data directory")
	}
	return doctor.Found("peer", doctor.Warn, p.Told().Error(),
		"do what it waits for; doctor asks it once it has started, and it probes its members then")
}

// peer is the running peer to ask, nil if there is none, and those that run and give no status.
func (f *doctorFlags) peer(ctx context.Context) (_ *localPeer, mute []localPeer, err error) {
	look, run := localPeers, f.run
	if namesPeer(f.API) || f.Dir != "" {
		look, run = f.named, ""
	}
	all, err := look(ctx)
	if err != nil {
		return nil, nil, err
	}
	var told []localPeer
	for _, p := range all {
		switch {
		case p.Mute != nil: // its run is not known
			mute = append(mute, p)
		case run == "" || p.Status.Run == run:
			told = append(told, p)
		}
	}
	switch len(told) {
	case 0:
		return nil, mute, nil
	case 1:
		return &told[0], mute, nil
	}
	return nil, nil, severalPeers(told)
}

// named is the peer that the command line names, if it runs.
func (f *doctorFlags) named(ctx context.Context) ([]localPeer, error) {
	_, err := os.Stat(filepath.Join(f.Dir, peer.APIFile))
	if !namesPeer(f.API) && (err != nil || otherVersion(f.Dir) != nil) {
		return nil, nil // no peer of this version runs with its data there
	}
	p, err := f.ask(ctx)
	if err != nil && !api.Runs(err) {
		return nil, err
	}
	p.Mute = err
	return []localPeer{p}, nil
}

// size says what a run needs of the disk, with so many members in its records, and what a round
// exchanges between so many.
func (l *look) size(spec p2pdiloco.Spec, parameters uint64, listed, members int) {
	vectors := map[string]uint64{"sgd": 1, "nesterov": 2}[spec.Outer] // with the anchor
	in, _ := codec.New(spec.Codec)
	out, _ := codec.NewOutcome(spec.Codec, spec.OutcomeCodec)
	outcome := encoded(out, parameters)
	l.need = doctor.Need{
		State: 4 * parameters * cmp.Or(vectors, 3), Outcome: outcome, Records: min(spec.LastSlot(), 1<<20),
		Members: listed,
	}
	l.view.Slot = doctor.Slot{
		Bytes: (encoded(in, parameters) + outcome) / 2, Codec: spec.Codec, Members: members, Steps: spec.InnerSteps,
		Beside: spec.Overlaps() || spec.Mode == p2pdiloco.ModeStreaming,
	}
}
