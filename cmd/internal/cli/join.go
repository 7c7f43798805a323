package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/bridge/peer"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
	"github.com/p2pdiloco/p2pdiloco/internal/ticket"
)

// ServePage serves the page of the peer with a data directory, at an address or peer.UsualPage,
// until end is called. It says on out where that is.
type ServePage func(ctx context.Context, out io.Writer, dir, addr string) (end func() error, err error)

// NewJoin is the command join: one peer of a run. servePage is nil in a program that has no page.
func NewJoin(servePage ServePage) *cobra.Command {
	s := peer.NewSettings()
	return newPeer(&cobra.Command{
		Use:   "join [TICKET] [-- COMMAND [ARG…]]",
		Short: "Take part in a run, or found it if nobody has",
		Long: `Take part in a run: find its peers, train with them until its last round, and end with the same model.
A peer that finds no other peer founds the run, with defaults for the settings that were not given
(p2pdiloco start NAME founds it at once). A peer that joins later adopts the run's settings; it is
refused only if a setting given here differs.

Where several runs have the name, the run of a peer given with --bootstrap is meant, or the one whose ID
begins as in --run NAME@ID. If nothing says which one, the command lists them and ends with status 4,
unless all but one have no member but their founder, in their first slots: a founder that is alone gives
its run up for another one (not after start). It ends so, too, where a data directory on this machine is
of another run of that name, before it founds a second.

A ticket (p2pdiloco invite) is all that a newcomer needs: it has the name of the run, addresses of some
of its peers, and a record by which the run is recognized. All users of a machine can read command
lines: give the ticket of a private run on standard input (-), in a file (@FILE), or in the environment
(P2PDILOCO_TICKET).

A command after -- starts the trainer: its processes attach to this one, which they find by the
environment (P2PDILOCO_ATTACH), and train this peer's part. Signals are passed on to it: HUP, at which
the peer leaves, too, QUIT, USR1, USR2, and Ctrl-Z, which stops both. When it ends with status 0, the peer
leaves the run; after any other it stays for --trainer-return and waits for another. Without a command,
--trainer attach waits for processes that attach.

At the first SIGINT or SIGTERM (Ctrl-C) the peer leaves: it announces that to the others, and a
contribution that was already offered still counts. At the second it stops at once.`,
		Example: `  # two peers on one network, found by mDNS
  p2pdiloco join --run my-run --start-peers 2 --preset lan

  # over the internet, from a bootstrap node or any peer of the run
  p2pdiloco join --run my-run --bootstrap /ip4/192.0.2.1/tcp/4001/p2p/12D3Koo...

  # by an invitation: from standard input, from a file, or itself
  ssh gpu1 p2pdiloco invite | p2pdiloco join -
  p2pdiloco join @ticket.txt
  p2pdiloco join p2pdiloco1aiaj...

  # a training loop of your own, on all GPUs of this machine
  p2pdiloco join --run my-run -- torchrun --nproc_per_node 8 train.py

  # settings in a file, text of your own
  p2pdiloco join --spec run.toml --data ~/books --model layers=4,width=256,context=128`,
	}, s, launch{servePage: servePage}, ticketArgs, slices.Concat([]HelpGroup{whichRun}, often)...)
}

// newPeer completes a command that is a peer. take takes its arguments before --.
func newPeer(
	cmd *cobra.Command, s *peer.Settings, l launch, take cobra.PositionalArgs, help ...HelpGroup,
) *cobra.Command {
	cmd.Args = func(cmd *cobra.Command, args []string) (err error) {
		args, l.command, err = splitCommand(cmd, args)
		return errors.Join(err, take(cmd, args))
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return join(cmd, s, l) }
	cmd.Flags().SortFlags = false
	s.Register(cmd.Flags())
	ShortHelp(cmd, help...)
	return cmd
}

// NewStart is the command start: the peer that founds a run.
func NewStart(servePage ServePage) *cobra.Command {
	s := peer.NewSettings()
	take := func(cmd *cobra.Command, args []string) error {
		return errors.Join(nameArg(cmd, args), s.FoundAtOnce())
	}
	return newPeer(&cobra.Command{
		Use:   "start NAME [-- COMMAND [ARG…]]",
		Short: "Found a run at once, and print a ticket with which others join it",
		Long: `Found a run of this name at once, train in it, and print a ticket with which others join. All settings
are those of join. If the data directory has a run of this name, the peer goes on with that one.

Where another peer of this machine has such a directory, nothing is founded: the command says which one it
is, and ends with status 4. Name a new one (--data-dir) to have a second run of the same name.`,
		Example: `  p2pdiloco start my-run --preset lan
  p2pdiloco start my-run --access private --rounds 1000 --data ~/texts
  p2pdiloco start my-run -- torchrun --nproc_per_node 8 train.py`,
	}, s, launch{starts: true, servePage: servePage}, take, often...)
}

// nameArg takes the argument as the name of the run to found.
func nameArg(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	run, name := cmd.Flags().Lookup("run"), args[0]
	switch {
	case len(args) > 1 || ticket.Is(name):
		return UsageError(fmt.Errorf("start takes the name of the run to found, not %q: whoever has a ticket "+
			"joins "+
			"(p2pdiloco join TICKET)", args))
	case run.Changed && run.Value.String() != name:
		return UsageError(fmt.Errorf("two names were given, %q and %q: give one", name, run.Value))
	}
	return cmd.Flags().Set("run", name) // a text of any kind
}

// ticketArgs takes the arguments as one ticket, which white space may have split, or as the place
// of one.
func ticketArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	text := strings.Join(args, "")
	if !ticket.Is(text) && !peer.IsTicketPlace(text) {
		return UsageError(
			fmt.Errorf("%s takes flags, or a ticket, which begins with %s, or @FILE or - for one; not %q. A run's "+
				"name stands after --run", cmd.Name(), ticket.Prefix, args[0]),
		)
	}
	f := cmd.Flags().Lookup("ticket")
	before, given := f.Value.String(), f.Changed
	if err := cmd.Flags().Set("ticket", text); err != nil {
		if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
			err = fmt.Errorf("ticket: %w", invalid.Unwrap())
		}
		return UsageError(err)
	}
	if given && f.Value.String() != before {
		return UsageError(errors.New("two tickets were given: give one"))
	}
	return nil
}

// splitCommand takes off the command after --. It needs the trainer that attaches.
func splitCommand(cmd *cobra.Command, args []string) (before, command []string, err error) {
	at := cmd.ArgsLenAtDash()
	if at < 0 {
		return args, nil, nil
	}
	before, command = args[:at], args[at:]
	if len(command) == 0 {
		return before, nil, UsageError(errors.New("there is no command after --: give one that starts the trainer"))
	}
	f := cmd.Flags().Lookup("trainer")
	if f.Changed && f.Value.String() != string(peer.TrainerAttach) {
		return before, nil, UsageError(
			fmt.Errorf("--trainer %s and a command that trains: give one of the two", f.Value))
	}
	return before, command, cmd.Flags().Set("trainer", string(peer.TrainerAttach))
}

func join(cmd *cobra.Command, s *peer.Settings, l launch) error {
	cfg, err := s.Config()
	if err == nil && s.Dashboard != "" && l.servePage == nil {
		err = sources.Faultf("dashboard", s.Dashboard, "this program has no page: p2pdiloco has")
	}
	if err != nil {
		return UsageError(err)
	}
	p := newParticipant(cmd, s, l)
	p.spec = cfg.Spec
	if err := s.FounderFaults(cfg.Spec); err != nil {
		p.say("note: if no peer of the run is found, this one cannot found it: %v", err)
	}
	warnMomentum(cfg.Spec, p.say)
	return p.run(cmd.Context())
}

// In a run of fewer rounds than manyRounds the usual outer momentum still oscillates at the end:
// rate .7 and momentum .6 end with a loss that is lower by 2 to 4%.
const manyRounds = 100

// warnMomentum advises against outer momentum where it costs loss. In an overlapped mode that is in
// any number of rounds: results come a slot late, and momentum .6 costs 5.8% more loss than 0.
func warnMomentum(spec p2pdiloco.Spec, say func(format string, args ...any)) {
	s := spec.Settled()
	if s.Overlaps() && s.Momentum != "0" && s.Outer != "delayed_nesterov" {
		say("note: mode %s is worse with outer momentum: --outer-lr 0.7 --momentum 0 usually ends with a lower loss",
			s.Mode)
		return
	}
	if spec.Rounds > 0 && s.Rounds < manyRounds && s.Outer == "nesterov" && s.Momentum == "0.9" {
		say("note: momentum 0.9 is for hundreds of rounds; for %d, --outer-lr 0.7 --momentum 0.6 usually ends with a "+
			"lower loss", s.Rounds)
	}
}

// warnTrim says in the words of the flag that a trimmed mean of few contributions is a mean.
func warnTrim(spec p2pdiloco.Spec, say func(format string, args ...any)) {
	s := spec.Settled()
	if n := s.StartPeers * s.TrimPermille; s.Aggregator == "trimmed_mean" && n > 0 && n < 1000 {
		say("note: --trim-permille %d leaves out nobody while fewer than %d peers contribute; --aggregator median "+
			"withstands a bad one from 3 on", s.TrimPermille, (999+s.TrimPermille)/s.TrimPermille)
	}
}
