package embed

import (
	"context"

	"github.com/p2pdiloco/p2pdiloco"
)

// peer is what is needed of a p2pdiloco.Node; tests have others.
type peer interface {
	Anchor(ctx context.Context, dst []float32) (slotNumber uint64, err error)
	Begin(params []float32, weight uint64) (round, error)
	Progress(stepsDone int)
	Status() p2pdiloco.Status
	Leave(ctx context.Context) error
	Close() error
}

// round is what is needed of a p2pdiloco.Round.
type round interface {
	Done() <-chan struct{}
	Err() error
	Finish(ctx context.Context, dst []float32) (slotNumber uint64, err error)
}

// whole is a real node.
type whole struct{ *p2pdiloco.Node }

// Begin implements peer.
func (w whole) Begin(params []float32, weight uint64) (round, error) {
	r, err := w.Node.Begin(params, weight)
	if err != nil {
		return nil, err // and no interface that holds a nil pointer
	}
	return r, nil
}

func joinWhole(ctx context.Context, cfg p2pdiloco.Config) (peer, error) {
	n, err := p2pdiloco.Join(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return whole{n}, nil
}
