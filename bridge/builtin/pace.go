package builtin

import (
	"context"
	"time"
)

// Pace makes each inner step from now on last at least d; 0: as long as it takes. Where several peers share a machine's cores, steps of
// one length, with time to spare, are what tells waiting for others from waiting for a core. What is trained stays the same.
func (t *Trainer) Pace(d time.Duration) { t.stepTime = d }

// await returns when so many steps of a Train that began then may be done, or ctx's error. Steps that were late are made up for.
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
