package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/node/datadir"
	"github.com/p2pdiloco/p2pdiloco/internal/statedir"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// archiveFlags say which run a bootstrap node keeps.
type archiveFlags struct {
	run, dir string
}

func (f *archiveFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.run, "archive", "",
		"open `run` to take part in without training: its state is kept and served, also after its end")
	fs.StringVar(&f.dir, "archive-dir", "", "data `folder` for it (default one under the user's state folder)")
}

// prepare chooses the data folder, and says which identity goes with it: a folder and its votes
// belong to one identity.
func (f *archiveFlags) prepare(identity string) (string, error) {
	if f.run == "" {
		if f.dir != "" {
			return "", errors.New("--archive-dir: it is for --archive RUN")
		}
		return identity, nil
	}
	if identity != "" {
		return "", errors.New("--identity: with --archive the identity is in the data folder (--archive-dir)")
	}
	if f.dir == "" {
		base, err := statedir.Base()
		if err != nil {
			return "", err
		}
		f.dir = filepath.Join(base, f.run, "archive")
	}
	return filepath.Join(f.dir, datadir.IdentityFile), nil
}

// keep takes part in the run until ctx ends, and says what becomes of it.
func (f *archiveFlags) keep(ctx context.Context, net *p2p.Network, log *slog.Logger, out io.Writer) error {
	node, err := p2pdiloco.Join(ctx, p2pdiloco.Config{
		KeepRecords: true,
		Spec:        p2pdiloco.Spec{Name: f.run}, DataDir: f.dir, Network: net, OnQuorumLoss: p2pdiloco.OnLossPause,
		Logger: log, OnEvent: func(e p2pdiloco.Event) {
			switch e.Name {
			case "run.joined", "run.final", "run.paused", "run.resumed", "run.switched":
				fmt.Fprintf(out, "archive of %s: %s\n", f.run, describe(e))
			}
		},
	})
	if err != nil {
		return unlessAsked(ctx, err)
	}
	err = node.Run(ctx)
	if err == nil { // it is over, and served from here on
		<-ctx.Done()
		return node.Close()
	}
	leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	return errors.Join(unlessAsked(ctx, err), node.Leave(leaving))
}
