package builtin

import (
	"context"
	"time"
)

// Pace makes each inner step from now on last at least d; 0 means as long as it takes. If several
// peers share a machine's cores, steps of one length, with time to spare, make it possible to
// measure the wait for other peers apart from the wait for a core. The result of training stays the
// same.
func (t *Trainer) Pace(d time.Duration) { t.stepTime = d }

// await waits until so many steps of a Train that began at that time may be done, or returns the
// error of ctx. Late steps are made up for.
func (t *Trainer) await(ctx context.Context, began time.Time, steps int) error {
	rest := t.stepTime*time.Duration(steps) - time.Since(began)
	if t.stepTime <= 0 || rest <= 0 {
		return nil
	}
	timer := time.NewTimer(rest)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
