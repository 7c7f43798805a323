package main

import (
	"context"
	"time"
)

const (
	lookAtClock = time.Second
	longPause   = 5 * time.Second // a loaded machine makes a process wait for less
)

// watchStandstill tells of time in which this peer did not run, until ctx ends: others take it for lost meanwhile, and its user, who opens
// a laptop's lid, should know why they did.
func watchStandstill(ctx context.Context, say func(format string, args ...any)) {
	tick := time.NewTicker(lookAtClock)
	defer tick.Stop()
	for last := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := time.Now()
		if d := stoodStill(now.Sub(last), now.Round(0).Sub(last.Round(0))); d > 0 {
			say("this peer did not run for %s (the machine slept, or the process was stopped); it gets what it missed, and where the others went on without it, it becomes a member again", d.Round(time.Second))
		}
		last = now
	}
}

// stoodStill is for how long nothing ran, 0 if it was no pause worth a word. The monotonic clock goes on for a process that is stopped; where
// the machine sleeps it may stand, and the wall clock goes on.
func stoodStill(monotonic, wall time.Duration) time.Duration {
	if d := max(monotonic, wall) - lookAtClock; d >= longPause {
		return d
	}
	return 0
}
