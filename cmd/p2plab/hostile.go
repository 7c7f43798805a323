package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/chaos"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
)

// hostileFlags are the flags of chaos that are for hostile peers.
type hostileFlags struct {
	attacks string
	known   string
	program string
}

// hostileSlots is --slots where it was not given.
const hostileSlots = 20

// hostilePeers is --peers where it was not given: with a hostile one, four, which all have a vote.
const hostilePeers = 3

func (f *hostileFlags) flags(fs *pflag.FlagSet) {
	fs.StringVar(&f.attacks, "hostile", "", "`attacks` of hostile peers, like mute,grab, three (drawn by --seed) or "+
		"all: a run for each, without faults")
	fs.StringVar(&f.known, "known", "", "`attacks` that need not be withstood; table for those that are known "+
		"not to be")
	fs.StringVar(&f.program, "program", "", "`path` of the program that peers run, like p2pdiloco; with --hostile, of "+
		"the honest ones (default this program)")
}

// runHostile runs the attacks of --hostile.
func (f *chaosFlags) runHostile(cmd *cobra.Command) error {
	cfg := chaos.HostileConfig{
		Peers: f.cfg.Peers, Slots: f.cfg.Slots, Trust: f.cfg.Trust, Timeout: f.cfg.Timeout,
		LogLevel: string(f.logLevel),
	}
	_, cfg.Width = cli.Terminal(cli.Progress(cmd, f.json))
	fs := cmd.Flags()
	if sources.Rank(fs, "peers") == 0 {
		cfg.Peers = hostilePeers
	}
	if sources.Rank(fs, "slots") == 0 {
		cfg.Slots = hostileSlots
	}
	if err := errors.Join(f.chooseAttacks(&cfg), cfg.Validate()); err != nil {
		return cli.UsageError(err)
	}
	return f.output.run(cmd, &cfg.Setting, func(ctx context.Context) (any, bool, error) {
		cfg.HostileProgram = cfg.Executable
		if f.hostile.program != "" {
			cfg.Executable = f.hostile.program
		}
		result, err := chaos.RunHostile(ctx, cfg)
		if result.OK && f.keepDir == "" {
			result.Dir = ""
		}
		return result, result.OK, err
	})
}

// chooseAttacks reads the flags.
func (f *chaosFlags) chooseAttacks(cfg *chaos.HostileConfig) (err error) {
	if cfg.Attacks, err = chaos.ParseAttacks("hostile", f.hostile.attacks, f.cfg.Seed); err != nil {
		return err
	}
	if f.hostile.known != "" {
		if cfg.Known, err = chaos.ParseAttacks("known", f.hostile.known, f.cfg.Seed); err != nil {
			return err
		}
	}
	if !hasHostile {
		return &sources.Fault{
			Flag: "hostile", Value: f.hostile.attacks,
			Why: "this program has no hostile peers: go run -tags hostile ./cmd/p2plab chaos --hostile ...",
		}
	}
	return errors.Join(f.hostile.findProgram(), f.unused(strings.Split(cfg.Attacks.String(), ",")...))
}

// findProgram makes the path of --program absolute, since peers run in other folders.
func (f *hostileFlags) findProgram() (err error) {
	if f.program == "" {
		return nil
	}
	if f.program, err = filepath.Abs(f.program); err != nil {
		return err
	}
	if _, err := os.Stat(f.program); err != nil {
		return &sources.Fault{Flag: "program", Value: f.program, Why: err.Error()}
	}
	return nil
}

// deeds say of each attack what its hostile peers do.
var deeds = map[chaos.Attack]string{
	"mute":              "says neither HAVE nor VOTE",
	"solo":              "as leader plans its own offer alone",
	"early-close":       "as leader closes the plan before the others have offered",
	"grab":              "as leader gives itself all segments to reduce",
	"stall":             "as leader does nothing, and its counters rise",
	"stall-own-terms":   "as leader does nothing",
	"hide-certificate":  "as leader collects votes and shows nobody the certificate",
	"silent-newcomer":   "three newcomers that contribute, and never say HAVE",
	"picky-feed":        "offers to one member alone",
	"usurp":             "as leader drafts records that list nobody else",
	"sybil":             "four strangers without a trainer, that draft records that list nobody else",
	"equivocate":        "as leader drafts two records, each for half of the others",
	"forge-promise":     "promises with a vote that never was",
	"high-ballot":       "names ballots far above those that are needed",
	"heavy-fork":        "forks the run alone, and claims a great weight",
	"bad-owner":         "signs another outcome than that of the contributions (one of five ways)",
	"bad-contributor":   "shows auditors nothing, then other bytes, then offers with false norms",
	"bad-auditor":       "accuses everybody, asks for everything, or checks nothing, in turns",
	"flip":              "contributes the opposite of what it has trained",
	"flip-10":           "contributes ten times the opposite",
	"scale":             "contributes a million times what it has trained",
	"noise":             "contributes noise, 100 times as long as what it has trained",
	"zeros":             "contributes zeros",
	"copy":              "two peers that train once and contribute the same",
	"replay":            "contributes in each slot what it did in the first",
	"weight":            "claims a weight of 2^50 tokens",
	"equivocate-owners": "gives owners other bytes than it has offered, then two offers",
	"little":            "contributes what lies 1.5 standard deviations from what the others do, as it guesses",
	"inner-product":     "contributes the opposite of half of the others' mean, as it guesses",
	"strangers-flip":    "four strangers that contribute the opposite of what they have trained",
	"strangers-scale":   "four strangers that contribute a million times what they have trained",
	"strangers-hide":    "three strangers that offer, and show auditors nothing",
	"strangers-fail":    "three strangers that offer, and then fail each reduction",
	"voter-fail":        "fails each reduction that another one leads, or reports itself lost in it",
}

// attacksHelp lists all attacks, a line for each.
func attacksHelp() string {
	var b strings.Builder
	for _, a := range chaos.Attacks() {
		fmt.Fprintf(&b, "  %-17s %s\n", a, deeds[a])
	}
	return strings.TrimSuffix(b.String(), "\n")
}
