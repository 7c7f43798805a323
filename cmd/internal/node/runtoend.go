package node

import (
	"context"
	"errors"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
)

// endless is a node that may be at the end of the run without its model.
type endless interface {
	Run(ctx context.Context) error
	Status() p2pdiloco.Status
	Err() error
}

// lookAgain is how often a peer that lacks the run's final model looks whether it has come.
const lookAgain = time.Second

// runToEnd takes part to the end of the run. Where the run's final model is not here then (the
// branch that ended is not the run, or nobody answers that holds the model) and looks says so, it
// waits until the node has found that, or ctx ends. The node looks for it all the time.
func runToEnd(ctx context.Context, node endless, looks func(error) bool) error {
	for {
		err := node.Run(ctx)
		lacks := errors.Is(err, p2pdiloco.ErrBranchEnded) || errors.Is(err, p2pdiloco.ErrMissed)
		if !lacks || !looks(err) {
			return err
		}
		for lacksFinal(node.Status().Phase) {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(lookAgain):
			}
		}
	}
}

func lacksFinal(p p2pdiloco.Phase) bool {
	return p == p2pdiloco.PhaseEndedBranch || p == p2pdiloco.PhaseEndedMissed
}

// serveOn lets a node whose run is over serve what it has until ctx ends, or the node does by
// itself.
func serveOn(ctx context.Context, node endless) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lookAgain):
			if err := node.Err(); err != nil {
				return err
			}
		}
	}
}
