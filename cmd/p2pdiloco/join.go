package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/bridge/builtin"
	"github.com/p2pdiloco/p2pdiloco/cmd/p2pdiloco/internal/api"
)

// noAPI is the value of --api that turns the status API off.
const noAPI = "off"

// Values of --trainer.
const (
	trainerGPT  = "builtin:gpt"
	trainerNone = "none"
)

// joinFlags are the command line of join.
type joinFlags struct {
	spec      specFlags
	bootstrap []string
	listen    []string
	found     bool
	preset    oneOf
	onLoss    oneOf
	pin       pin
	trainer   oneOf
	model     model
	threads   int
	data      []string
	init      string
	every     uint64
	keep      int
	stateRate int64
	dataDir   string
	events    string
	api       string
	json      bool
	logLevel  logLevel

	// For `chaos`, and not in the help: see paced.
	pause time.Duration
	gate  string
}

func newJoin() *cobra.Command {
	f := &joinFlags{
		preset:   oneOf{p2pdiloco.PresetWAN, []string{p2pdiloco.PresetLAN, p2pdiloco.PresetWAN}, "preset"},
		onLoss:   oneOf{p2pdiloco.OnLossContinue, []string{p2pdiloco.OnLossContinue, p2pdiloco.OnLossPause}, "what"},
		trainer:  oneOf{trainerGPT, []string{trainerGPT, trainerNone}, "trainer"},
		logLevel: "warn",
	}
	cmd := &cobra.Command{
		Use:   "join --run NAME",
		Short: "Take part in a run, or found it if nobody has",
		Long: `Take part in a run: find its peers, train with them until its last round, and hold the same
model as they do. Who finds nobody founds the run, filling with defaults the settings that were
not given; who joins later adopts the run's settings, and is refused only where a setting given
here differs.

The first SIGINT or SIGTERM (Ctrl-C) leaves: the others are told, and a contribution already
offered still counts. The second stops at once.`,
		Example: `  # two peers on one network, found by mDNS
  p2pdiloco join --run my-run --start-peers 2 --preset lan

  # over the internet, from a bootstrap node or any peer of the run
  p2pdiloco join --run my-run --bootstrap /ip4/192.0.2.1/tcp/4001/p2p/12D3Koo...

  # settings in a file, text of your own
  p2pdiloco join --spec run.toml --data ~/books --model layers=4,width=256,context=128`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.add(cmd)
	return cmd
}

func (f *joinFlags) add(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.SortFlags = false
	f.spec.add(fs)
	fs.StringArrayVar(&f.bootstrap, "bootstrap", nil, "`multiaddr` ending in /p2p/PEER to start from, may be repeated (default: look on the local network with mDNS)")
	fs.StringArrayVar(&f.listen, "listen", nil, "`multiaddr` to listen on, may be repeated (default any free TCP and UDP port)")
	fs.BoolVar(&f.found, "found", false, "found the run even if no bootstrap address answers")
	fs.Var(&f.preset, "preset", "timing: lan (one machine or building) or wan (the internet)")
	fs.Var(&f.onLoss, "on-quorum-loss", "when too few members are left to decide: continue without the others after a while, or pause until p2pdiloco recover")
	fs.Var(&f.pin, "pin", "`hash` of a record that the run's chain must have, as the status of a peer that is trusted shows it under tip (default: the first peers met are trusted)")
	fs.Var(&f.trainer, "trainer", "what trains: builtin:gpt (a small byte-level transformer), or none (vote and serve only)")
	fs.Var(&f.model, "model", "sizes of builtin:gpt, the same on all peers: "+modelKeys()+" (default layers=1,width=96,heads=4,context=32,batch=32)")
	fs.IntVar(&f.threads, "threads", 1, "cores that builtin:gpt uses")
	fs.StringArrayVar(&f.data, "data", nil, "text `file or folder` to train on, may be repeated (default the Go standard library's source)")
	fs.StringVar(&f.init, "init", "", "found the run from this .safetensors `file`: who founds it must have the same one, who joins later needs none")
	fs.StringVar(&f.dataDir, "data-dir", "", "`folder` for identity, votes and checkpoints; started with it again, the peer is the same member (default one under the user's state folder)")
	fs.Uint64Var(&f.every, "checkpoint-every", 4, "rounds between checkpoints; one is also made at the end")
	fs.IntVar(&f.keep, "keep-checkpoints", 2, "newest certified checkpoints kept, with the rounds since")
	fs.Int64Var(&f.stateRate, "state-rate", 0, "`megabytes` a second given at most to those who fetch the state (default 4 a core)")
	fs.StringVar(&f.events, "events", "", "append events to this `file`, one JSON object a line")
	fs.StringVar(&f.api, "api", "127.0.0.1:0", "`address` of the status API: a loopback HOST:PORT, unix:PATH, or off")
	fs.BoolVar(&f.json, "json", false, "print one JSON document about this peer's part to stdout at the end, everything else to stderr")
	fs.Var(&f.logLevel, "log-level", "of the log on stderr: "+strings.Join(logLevels, ", "))
	fs.DurationVar(&f.pause, "pause", 0, "rest after the inner steps of each round")
	fs.StringVar(&f.gate, "gate", "", "`file` with the newest slot to train for; when it has passed, wait until the file names a later one")
	_, _ = fs.MarkHidden("pause"), fs.MarkHidden("gate") // fails for flags that are not there
}

func (f *joinFlags) run(cmd *cobra.Command) error {
	spec, err := f.spec.settle()
	if err != nil {
		return err
	}
	if err := f.check(); err != nil {
		return usageError(err)
	}
	p := &peer{flags: f, spec: spec, stdout: cmd.OutOrStdout(), stderr: cmd.ErrOrStderr(), began: time.Now()}
	warnMomentum(spec, p.say)
	return p.run(cmd.Context())
}

// check finds what is wrong with flags that are not the spec's, before anything is started.
func (f *joinFlags) check() error {
	var errs []error
	if f.api != noAPI {
		_, err := api.ParseAddress(f.api)
		errs = append(errs, err)
	}
	if f.every < 1 || f.keep < 1 {
		errs = append(errs, fmt.Errorf("--checkpoint-every %d, --keep-checkpoints %d: at least 1", f.every, f.keep))
	}
	if f.stateRate < 0 {
		errs = append(errs, fmt.Errorf("--state-rate %d: at least 1", f.stateRate))
	}
	if f.trainer.value == trainerNone {
		for _, name := range []string{"model", "threads", "data", "init"} {
			if f.spec.flags.Changed(name) {
				errs = append(errs, fmt.Errorf("--%s is for a peer that trains, not for --trainer none", name))
			}
		}
		return errors.Join(errs...)
	}
	f.model.Threads = f.threads
	if f.threads < 1 {
		errs = append(errs, fmt.Errorf("--threads %d: at least 1", f.threads))
	} else if err := f.model.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("--model: %w", err))
	}
	return errors.Join(errs...)
}

// Below manyRounds, the usual outer momentum is still swinging when the run ends: .7/.6 ends lower by 2 to 4%.
const manyRounds = 100

func warnMomentum(spec p2pdiloco.Spec, say func(format string, args ...any)) {
	s := spec.Settled()
	if spec.Rounds > 0 && s.Rounds < manyRounds && s.Outer == "nesterov" && s.Momentum == "0.9" {
		say("note: momentum 0.9 is for hundreds of rounds; for %d, --outer-lr 0.7 --momentum 0.6 usually ends with a lower loss", s.Rounds)
	}
}

// newGPT is the built-in trainer. The seed makes the initial model, should this peer found the run; what divides the data is the
// run's own, which comes with each task.
func (f *joinFlags) newGPT(ctx context.Context, seed uint64) (p2pdiloco.Trainer, error) {
	corpus, err := builtin.OpenCorpus(ctx, builtin.CorpusConfig{Paths: f.data})
	if err != nil {
		return nil, err
	}
	cfg := f.model.Config
	cfg.Seed = seed
	t, err := builtin.New(cfg, corpus)
	if err != nil || f.pause == 0 && f.gate == "" {
		return t, err
	}
	return &paced{t, f.pause, f.gate}, nil
}
