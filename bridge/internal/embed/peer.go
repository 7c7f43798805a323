package embed

import (
	"context"
	"io"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/bridge/peer"
	"github.com/p2pdiloco/p2pdiloco/bridge/settings"
)

// host is what this package needs of a peer.Peer; tests replace it.
type host interface {
	Joined() <-chan struct{}
	node(ctx context.Context) (trainee, error)
	Status() (p2pdiloco.Status, bool)
	Leave(ctx context.Context) error
	Close() error
}

// trainee is what this package needs of a p2pdiloco.Node.
type trainee interface {
	Anchor(ctx context.Context, dst []float32) (slotNumber uint64, err error)
	begin(params []float32, weight uint64) (round, error)
	Progress(stepsDone int)
}

// round is what this package needs of a p2pdiloco.Round.
type round interface {
	Done() <-chan struct{}
	Err() error
	Finish(ctx context.Context, dst []float32) (slotNumber uint64, err error)
}

type (
	realHost    struct{ *peer.Peer }
	realTrainee struct{ *p2pdiloco.Node }
)

// The functions of the real ones return interfaces that hold no nil pointers.

func (h realHost) node(ctx context.Context) (trainee, error) {
	n, err := h.Node(ctx)
	if err != nil {
		return nil, err
	}
	return realTrainee{n}, nil
}

func (t realTrainee) begin(params []float32, weight uint64) (round, error) {
	r, err := t.Begin(params, weight)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// open starts a real peer. It logs nothing unless the settings have a log level.
func open(s *settings.Settings, o peer.Options, stderr io.Writer) (host, error) {
	if s.Logs() {
		o.Logger = s.LogLevel.Logger(stderr)
		for _, warning := range s.Warnings {
			o.Logger.Warn(warning)
		}
	}
	p, err := peer.Open(context.Background(), s, o)
	if err != nil {
		return nil, err
	}
	return realHost{p}, nil
}
