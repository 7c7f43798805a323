package cli

import (
	"context"
	"time"
)

const (
	lookAtClock = time.Second
	longPause   = 5 * time.Second // a loaded machine makes a process wait for less
)

// watchStandstill reports times in which this peer did not run, until ctx ends. The others take the
// peer for lost meanwhile, and a user who opens a laptop's lid should know why.
func watchStandstill(ctx context.Context, say func(format string, args ...any)) {
	tick := time.Tick(lookAtClock)
	for last := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick:
		}
		now := time.Now()
		if d := stoodStill(now.Sub(last), now.Round(0).Sub(last.Round(0))); d > 0 {
			say("this peer did not run for %s (the machine slept, or the process was stopped); it fetches what "+
				"it missed, and if the others went on without it, it becomes a member again", d.Round(time.Second))
		}
		last = now
	}
}

// stoodStill is how long the process did not run, or 0 for a short pause. The monotonic clock goes
// on while a process is stopped. While the machine sleeps it may stop, and the wall clock goes on.
func stoodStill(monotonic, wall time.Duration) time.Duration {
	if d := max(monotonic, wall) - lookAtClock; d >= longPause {
		return d
	}
	return 0
}
