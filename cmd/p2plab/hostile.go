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
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/node"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/chaos"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/hostile"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
)

// hostileFlags are the flags of chaos that are for hostile peers.
type hostileFlags struct {
	attacks string
	program string
}

// hostileSlots is --slots where it was not given.
const hostileSlots = 20

// hostilePeers is --peers where it was not given: with a hostile one, four, which all have a vote.
const hostilePeers = 3

func (f *hostileFlags) flags(fs *pflag.FlagSet) {
	fs.StringVar(&f.attacks, "hostile", "", "`attacks` of hostile peers, like mute,grab, three (drawn by --seed) or "+
		"all: a run for each, without faults")
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
	if cfg.Attacks, err = chaos.ParseAttacks(f.hostile.attacks, f.cfg.Seed); err != nil {
		return err
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

// attacksHelp lists all attacks, a line for each.
func attacksHelp() string {
	var b strings.Builder
	for _, k := range hostile.Kinds() {
		fmt.Fprintf(&b, "  %-17s %s\n", k.Name, k.Does)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// addHostile adds the process of a hostile peer: join, after the name of an attack and the folder
// that it shares with its judge.
func addHostile(root *cobra.Command) {
	cmd := hidden(node.NewJoin())
	cmd.Use, cmd.Args = chaos.HostileCommand+" ATTACK FOLDER", cobra.ExactArgs(2)
	join := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, err := hostile.Peer{Kind: args[0], Folder: args[1]}.With(cmd.Context())
		if err != nil {
			return cli.UsageError(err)
		}
		cmd.SetContext(ctx)
		return join(cmd, nil)
	}
	root.AddCommand(cmd)
}
