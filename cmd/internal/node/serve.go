package node

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/bridge/settings"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/node/datadir"
)

// servingFlags are the settings of a peer that serve shows. It obeys the others, too, as a peer
// that was started with them once may have them in its config file.
var servingFlags = []string{
	"bootstrap", "listen", "announce", "no-port-map", "preset", "pin", "state-rate", "newcomer-states",
	"site-newcomers", "max-upload", "events", "api", "metrics", "json", "log-level",
}

// NewServe is the command serve: the peer of a data directory, which trains nothing.
func NewServe() *cobra.Command {
	s := settings.New()
	cmd := &cobra.Command{
		Use:   "serve DIR",
		Short: "Serve the final model of a run that has ended to peers that come late",
		Long: `Serve the final model of a run that has ended, or the newest state that is there, from the data directory
of one of its peers. Peers that join the run, or come back to it, get it from here and end with it.

It is the peer that the folder belongs to, under its identity, and it trains nothing. It goes on until
SIGINT or SIGTERM. If the run has not ended it takes part as a peer that only votes and serves; without
a quorum it waits, and never goes on alone.`,
		Example: `  p2pdiloco serve ~/.local/state/p2pdiloco/my-run/peer-1
  p2pdiloco serve ~/run1 --listen /ip4/0.0.0.0/tcp/4001`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.UsageError(fmt.Errorf("serve takes one data directory: p2pdiloco serve DIR (%d were "+
					"given)", len(args)))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return serve(cmd, s, args[0]) },
	}
	cmd.Flags().SortFlags = false
	s.Register(cmd.Flags())
	cmd.Flags().VisitAll(func(f *pflag.Flag) { f.Hidden = f.Hidden || !slices.Contains(servingFlags, f.Name) })
	return cmd
}

func serve(cmd *cobra.Command, s *settings.Settings, dir string) error {
	d := datadir.At(disk.OS, dir)
	known, err := d.LoadSpec(p2pdiloco.Spec{})
	if err == nil && (known == nil || !d.Has(datadir.LedgerFile)) {
		err = fmt.Errorf("%s is not the data directory of a peer that was in a run: it needs the files run.spec and "+
			"ledger.log", dir)
	}
	if err != nil {
		return cli.UsageError(err)
	}
	for name, value := range map[string]string{
		"data-dir": dir, "run": known.Name, "trainer": string(settings.TrainerNone),
		"on-quorum-loss": p2pdiloco.OnLossPause,
	} {
		if err := cmd.Flags().Set(name, value); err != nil {
			return err
		}
	}
	if _, err := s.Config(); err != nil {
		return cli.UsageError(err)
	}
	p := newParticipant(cmd, s)
	p.stays = true
	return p.run(cmd.Context())
}

// stay serves what a peer has until ctx ends, or the peer does by itself.
func (p *participant) stay(ctx context.Context, node *p2pdiloco.Node) error {
	p.say("serving the model of slot %d to peers that come, until this peer is stopped (Ctrl-C)", node.Status().Slot)
	return serveOn(ctx, node)
}
