package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/chaos"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/hostile"
	"github.com/p2pdiloco/p2pdiloco/internal/node/edge"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
)

// What --peers and --slots are with --hostile where they were not given. With a hostile one, four
// peers have a vote.
const (
	hostilePeers = 3
	hostileSlots = 20
)

// runHostile runs the attacks of --hostile, in mode sync with plain values.
func (f *chaosFlags) runHostile(cmd *cobra.Command) (err error) {
	cfg := chaos.HostileConfig{Config: f.cfg}
	cfg.Mode, cfg.Codec, cfg.Preset = p2pdiloco.ModeSync, "", ""
	cfg.Trust = cmp.Or(cfg.Trust, p2pdiloco.TrustByzantine)
	if sources.Rank(cmd.Flags(), "peers") == 0 {
		cfg.Peers = hostilePeers
	}
	if sources.Rank(cmd.Flags(), "slots") == 0 {
		cfg.Slots = hostileSlots
	}
	cfg.Attacks, err = chaos.ParseAttacks(f.attacks, f.cfg.Seed)
	err = errors.Join(err, f.findProgram(), cfg.Validate())
	for _, k := range cfg.Attacks {
		err = errors.Join(err, f.unused(k.Name))
	}
	if err != nil {
		return cli.UsageError(err)
	}
	return f.output.run(cmd, &cfg.Setting, func(ctx context.Context) (any, bool, error) {
		cfg.HostileProgram, cfg.Executable = cfg.Executable, cmp.Or(f.program, cfg.Executable)
		result, err := chaos.RunHostile(ctx, cfg)
		return result, result.OK, err
	})
}

// findProgram makes the path of --program absolute, since peers run in other folders.
func (f *chaosFlags) findProgram() (err error) {
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

// newHostileJoin is the process of a hostile peer: join, after the name of an attack and the folder
// that it shares with its judge.
func newHostileJoin() *cobra.Command {
	cmd := hidden(cli.NewJoin(nil))
	cmd.Use, cmd.Args = hostile.Command+" ATTACK FOLDER", cobra.ExactArgs(2)
	join := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		kind, known := hostile.Find(args[0])
		if !known {
			return cli.UsageError(fmt.Errorf("no hostile peer is of kind %q", args[0]))
		}
		h := &edge.Hooks{}
		hostile.Peer{Kind: kind, Folder: args[1]}.Turn(cmd.Context(), h)
		cmd.SetContext(edge.WithHooks(cmd.Context(), h))
		return join(cmd, nil)
	}
	return cmd
}
