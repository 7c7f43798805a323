package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/internal/failpoint"
	"github.com/p2pdiloco/p2pdiloco/internal/lab"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/chaos"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
	"github.com/p2pdiloco/p2pdiloco/spec"
)

// chaosFlags are the command line of chaos.
type chaosFlags struct {
	output
	cfg     chaos.Config
	attacks string
	program string
}

const chaosHelp = `Run a swarm of real processes on this machine, kill, stop, restart and cut off its peers by a
schedule drawn from a seed, and check at the end that all peers finished with equal state roots,
that all event logs have one certified record at each height, that no certified slot was lost,
and that nothing hung or crashed. The exit status is 0 only if all checks hold.

Faults, any of which may begin while another is not over yet. In brackets stands what a kind needs, and
"by name" where a run has it only if --faults names it:
`

const hostileHelp = `
With --hostile, instead of faults, one peer of a run lies; --peers are honest ones (default 3), --slots
those of each attack (default 20). The attack begins after some undisturbed slots. The run must go on,
with equal states, and keep its honest peers and their contributions; nobody may be called a liar
without proof.
`

func newChaos() *cobra.Command {
	f := &chaosFlags{}
	cmd := &cobra.Command{
		Use:   "chaos",
		Short: "Hurt a swarm on this machine, and check that nothing agreed was lost",
		Long:  chaosHelp + chaos.KindsHelp() + hostileHelp + attacksHelp(),
		Example: `  p2plab chaos
  p2plab chaos --peers 5 --slots 40 --seed 7 --faults kill,leader --keep-dir /tmp/chaos
  p2plab chaos --json 2>chaos.log | jq .faults
  p2plab chaos --hostile mute,grab --program ./p2pdiloco`,
		Args: cli.NoArgs,
		RunE: f.run,
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.IntVar(&f.cfg.Peers, "peers", 8, "peers to start")
	fs.Uint64Var(&f.cfg.Slots, "slots", 60, "slots until the end")
	fs.Uint64Var(&f.cfg.Seed, "seed", 1, "of the schedule")
	fs.StringVar(&f.cfg.Mode, "mode", p2pdiloco.ModeSync,
		"`how` rounds follow each other: sync, delayed, eager, streaming, async")
	fs.StringVar(&f.cfg.Trust, "trust", "", "`what` the run withstands: crash or byzantine (default crash, and "+
		"with --hostile byzantine); with byzantine, fewer than a third of the peers with a vote are down at once")
	fs.StringVar(&f.cfg.Codec, "codec", chaos.DefaultCodec,
		"`how` pseudo-gradients travel: "+strings.Join(spec.Codecs(), ", "))
	fs.StringVar(&f.cfg.Preset, "preset", p2pdiloco.PresetLAN,
		"`timers` of the peers: lan, wan; with wan, faults and waiting take 20 times as long, and links have 25 ms")
	fs.Var(&f.cfg.Kinds, "faults", "`kinds` of faults, like kill,leader (default all that this user may cause)")
	fs.StringVar(&f.attacks, "hostile", "", "`attacks` of hostile peers, like mute,grab, three (drawn by --seed) or "+
		"all: a run for each, without faults")
	fs.StringVar(&f.program, "program", "", "`path` of the program that peers run, like p2pdiloco; with --hostile, of "+
		"the honest ones (default this program)")
	fs.DurationVar(&f.cfg.Timeout, "timeout", 0, "for everything (default by slots and faults)")
	f.flags(fs, "the peers' data, logs and events")
	return cmd
}

func (f *chaosFlags) run(cmd *cobra.Command, _ []string) error {
	if f.attacks != "" {
		return f.runHostile(cmd)
	}
	f.cfg.Out = cli.Progress(cmd, f.json)
	if err := errors.Join(f.findProgram(), f.chooseFaults(cmd.Context()), f.cfg.Validate(),
		f.unused("run")); err != nil {
		return cli.UsageError(err)
	}
	return f.output.run(cmd, &f.cfg.Setting, func(ctx context.Context) (any, bool, error) {
		f.cfg.Executable = cmp.Or(f.program, f.cfg.Executable)
		result, err := chaos.Run(ctx, f.cfg)
		return result, result.OK, err
	})
}

// unused refuses a folder with an earlier run, which has left some folders there.
func (o *output) unused(parts ...string) error {
	for _, part := range parts {
		if o.keepDir != "" && lab.Used(filepath.Join(o.keepDir, part)) {
			return fmt.Errorf("--keep-dir %s holds an earlier run: name another folder, or remove it", o.keepDir)
		}
	}
	return nil
}

// chooseFaults refuses kinds that this user may not cause. Without --faults it takes all others,
// and prints what it leaves out.
func (f *chaosFlags) chooseFaults(ctx context.Context) error {
	if len(f.cfg.Kinds) == 0 {
		links := true
		if err := chaos.CanLinks(ctx); err != nil {
			fmt.Fprintf(f.cfg.Out, "without %s: %v\n", chaos.Needing(chaos.Kinds(true), chaos.Links), err)
			links = false
		}
		f.cfg.Kinds = chaos.Kinds(links)
		return nil
	}
	has := failpoint.Enabled
	if f.program != "" {
		has = chaos.HasFailpoints(f.program)
	}
	if slices.Contains(f.cfg.Kinds, chaos.Failpoint) && !has {
		return sources.Faultf("faults", f.cfg.Kinds, "%s has no failpoints: go run -tags failpoints ./cmd/p2plab "+
			"chaos --faults ..., or name a program that was built with this tag (--program)",
			cmp.Or(f.program, "this program"))
	}
	if some := chaos.Needing(f.cfg.Kinds, chaos.Root); len(some) > 0 && os.Geteuid() != 0 {
		return sources.Faultf("faults", some, "a small disk is mounted, which needs root: be root, or leave it out")
	}
	return nil
}
