package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"time"

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
	fs.StringVar(&f.dir, "archive-dir", "", "data `directory` for it (default one under the user's state directory)")
}

// prepare chooses the data directory, and says which identity goes with it: a directory and its
// votes belong to one identity.
func (f *archiveFlags) prepare(identity string) (string, error) {
	if f.run == "" {
		if f.dir != "" {
			return "", errors.New("--archive-dir: it is for --archive RUN")
		}
		return identity, nil
	}
	if identity != "" {
		return "", errors.New("--identity: with --archive the identity is in the data directory (--archive-dir)")
	}
	if f.dir == "" {
		base, err := statedir.Base()
		if err != nil {
			return "", err
		}
		f.dir = filepath.Join(statedir.RunDir(base, f.run), "archive")
	}
	return filepath.Join(f.dir, datadir.IdentityFile), nil
}

// archiveAgain is the pause before an archive that has failed is tried again.
const archiveAgain = time.Minute

// keep takes part in the run until ctx ends. An error that the node has once it is in the network
// is told, and the archive is tried again after a while: the bootstrap node goes on.
func (f *archiveFlags) keep(ctx context.Context, net *p2p.Network, log *slog.Logger, out io.Writer) error {
	for {
		fails, err := f.attempt(ctx, net, log, out)
		if fails == nil || err != nil {
			return err
		}
		fmt.Fprintf(out, "archive of %s: it has ended: %v. The bootstrap node goes on without it, and tries it again "+
			"every minute\n", f.run, fails)
		select {
		case <-time.After(archiveAgain):
		case <-ctx.Done():
			return nil
		}
	}
}

// attempt takes part in the run until ctx ends. After an error in fails another attempt may
// succeed; one in err is final.
func (f *archiveFlags) attempt(ctx context.Context, net *p2p.Network, log *slog.Logger, out io.Writer) (fails,
	err error,
) {
	started := false
	node, err := p2pdiloco.Join(ctx, p2pdiloco.Config{
		KeepRecords: true,
		Spec:        p2pdiloco.Spec{Name: f.run}, DataDir: f.dir, Network: net, OnQuorumLoss: p2pdiloco.OnLossPause,
		Logger: log, OnEvent: func(e p2pdiloco.Event) {
			switch e.Name {
			case "peer.started":
				started = true // Join has got so far, and says so itself
			case "run.joined", "run.final", "run.paused", "run.resumed", "run.switched":
				fmt.Fprintf(out, "archive of %s: %s\n", f.run, describe(e))
			}
		},
	})
	if err == nil {
		err = f.takePart(ctx, node, out)
	}
	if err = unlessAsked(ctx, err); err == nil || !started || errors.Is(err, p2pdiloco.ErrCloned) {
		return nil, err // an identity that is used twice is that of the bootstrap node, too
	}
	return err, nil
}

// archived is the node that takes part for an archive.
type archived interface {
	endless
	Leave(ctx context.Context) error
	Close() error
}

// takePart takes part in the run until ctx ends. Where the run has ended and its final model is not
// here, it looks for that as long.
func (f *archiveFlags) takePart(ctx context.Context, node archived, out io.Writer) error {
	err := runToEnd(ctx, node, func(err error) bool {
		fmt.Fprintf(out, "archive of %s: %v. It goes on looking\n", f.run, err)
		return true
	})
	if err == nil { // it is over, and served from here on
		return errors.Join(unlessAsked(ctx, serveOn(ctx, node)), node.Close())
	}
	leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	return errors.Join(unlessAsked(ctx, err), node.Leave(leaving))
}
