package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/cmd/p2pdiloco/internal/local"
	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/node/datadir"
	"github.com/p2pdiloco/p2pdiloco/internal/node/refound"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// newRun is the part of the command line that is for --new-run.
type newRun struct {
	founders []string
	slot     *uint64
}

func (n *newRun) register(fs *pflag.FlagSet) {
	fs.Var(sources.Peers(&n.founders), "founders",
		"with --new-run: `peer` that is left, may be repeated: the same for all")
	fs.Var(sources.Var(&n.slot, "slot", readSlot, showSlot), "slot",
		"with --new-run: which slot's model the run goes on from, the same for all: a number, or latest")
}

// notGiven refuses the flags of --new-run without it: what is left of that command line means
// something else, a fork of the old run. In the environment and a config file they are settings of
// join and export.
func (n *newRun) notGiven(fs *pflag.FlagSet) error {
	for _, name := range []string{"founders", "slot"} {
		if f := fs.Lookup(name); sources.OnCommandLine(fs, name) {
			return sources.Faultf(name, f.Value, "it is for --new-run, which founds the run anew; without that, "+
				"recover forks the run that there is. Nothing was done: add --new-run, or leave this out")
		}
	}
	return nil
}

// run says what a running peer's new run would be, or makes it in the data directory of one that
// has ended.
func (n newRun) run(ctx context.Context, out io.Writer, o local.Operator, yes bool) error {
	if !yes {
		return n.plan(ctx, out, o)
	}
	var errs []error
	cfg := refound.Config{Dir: o.Dir, Slot: n.slot}
	if cfg.Dir == "" {
		errs = append(errs, errors.New("no peer is named: give its data directory with --data-dir DIR"))
	}
	if len(n.founders) == 0 {
		errs = append(errs, errors.New("nobody is named that is to go on: give each peer that is left with "+
			"--founders; without --yes, the command says on a paused peer who is heard"))
	}
	for _, text := range n.founders {
		p, err := trainer.ParsePeerID(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("--founders %s: %w", text, err))
		}
		cfg.Founders = append(cfg.Founders, p)
	}
	if len(errs) > 0 {
		return cli.UsageError(errors.Join(errs...))
	}
	known, err := datadir.At(disk.OS, cfg.Dir).LoadSpec(p2pdiloco.Spec{})
	if err == nil && known == nil { // a mistyped directory would be made, with an identity
		err = fmt.Errorf("%s holds no run.spec: it belongs to no run", cfg.Dir)
	}
	if err != nil {
		return err
	}
	if cfg.Self, _, err = datadir.Identity(disk.OS, cfg.Dir); err != nil {
		return err
	}
	made, err := refound.Found(ctx, cfg)
	if err != nil {
		return err
	}
	fmt.Fprint(out, madeText(made))
	return nil
}

// madeText says what was made, and what to do now.
func madeText(r refound.Result) string {
	return fmt.Sprintf(`run %s goes on as a new run, ID %s, from the model of slot %d (state root %s), for %d rounds.
The ID must be the same on all peers that go on; if it is not, they were given another slot or other founders.
What this peer had of the old run, ID %s, is in %s.
Start this peer as before, without --rounds, --start-peers, --min-peers, --founders, --seed, --init and tickets.
The new run begins when %d of its %d founders have signed its first record. Tickets of the old run are void.
`, r.New.Name, r.New.RunID().Short(), r.Slot, r.State.Short(), r.New.Rounds, r.Old.RunID().Short(), r.Kept,
		len(r.New.Founders)/2+1, len(r.New.Founders))
}

// plan prints the command for each peer that a running one hears.
func (n newRun) plan(ctx context.Context, out io.Writer, o local.Operator) error {
	_, _, s, err := askStatus(ctx, o)
	if err != nil {
		return err
	}
	if s.Phase != p2pdiloco.PhasePaused {
		return fmt.Errorf("run %s is %s here and needs no new run: that is for a run that is paused for good",
			s.Run, s.Phase)
	}
	fmt.Fprint(out, planText(s))
	return cli.NothingDone("nothing was done: give the command above on each peer")
}

// planText says what a new run with all peers that are heard would be.
func planText(s p2pdiloco.Status) string {
	var b strings.Builder
	fmt.Fprintf(&b, "run %s, peer %s: %s at slot %d of %d\n%s\n", s.Run, s.Peer.Short(), s.Phase, s.Slot, s.LastSlot,
		s.Reason)
	command := []string{fmt.Sprintf("p2pdiloco recover --new-run --data-dir DIR --slot %d", s.Slot)}
	for _, m := range s.Members {
		if m.Self || m.State != "missing" {
			command = append(command, "--founders "+m.Peer.String())
		}
	}
	left := len(command) - 1
	who, end := fmt.Sprintf("%d members that are heard", left), fmt.Sprintf("each of the %d peers", left)
	if left == 1 {
		who, end = "1 member that is heard, this peer", "this peer"
	}
	fmt.Fprintf(&b, `The run can be founded anew from the model of slot %d, by the %s.
If the missing members come back later, their run is another one: make sure that they are gone for good.
End %s (Ctrl-C), give this command with its data directory for DIR, and start it again:

  %s --yes

`, s.Slot, who, end, strings.Join(command, " "))
	return b.String()
}
