package cli

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

// runToEnd takes part to the end of the run. Where nobody answers then that holds the run's final
// model, and looks says so, it waits until the node has found that, or ctx ends. The node looks for
// it all the time.
func runToEnd(ctx context.Context, node endless, looks func(error) bool) error {
	for {
		err := node.Run(ctx)
		if !errors.Is(err, p2pdiloco.ErrMissed) || !looks(err) {
			return err
		}
		for node.Status().Phase == p2pdiloco.PhaseEndedMissed {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(lookAgain):
			}
		}
	}
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
