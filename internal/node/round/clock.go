package round

import (
	"context"
	"sync/atomic"
	"time"
)

// clock measures how long the inner steps took, and how long the trainer stood still and waited for
// others. It belongs to the goroutine that runs the rounds, except for the totals.
type clock struct {
	trained, stalled atomic.Int64 // totals, in nanoseconds

	since  time.Time     // when the trainer began to stand still; zero: it does not
	newest time.Duration // how long it stood still since its newest statistics
	freed  time.Time     // when a caller's loop could begin its inner steps; zero: it could not
}

// stand begins to count the time that the trainer stands still.
func (c *clock) stand() { c.since = time.Now() }

// train ends the count that stand began.
func (c *clock) train() {
	if c.since.IsZero() {
		return
	}
	c.stood(time.Since(c.since))
	c.since = time.Time{}
}

// while counts the time of f: the trainer waits for it.
func (c *clock) while(ctx context.Context, f func(context.Context) error) error {
	c.stand()
	defer c.train()
	return f(ctx)
}

func (c *clock) stood(d time.Duration) {
	c.newest += d
	c.stalled.Add(int64(d))
}

// free begins to count the time of the inner steps of a caller's loop.
func (c *clock) free() { c.freed = time.Now() }

// hold ends the count that free began.
func (c *clock) hold() (took time.Duration) {
	if !c.freed.IsZero() {
		took = time.Since(c.freed)
		c.trained.Add(int64(took))
		c.freed = time.Time{}
	}
	return took
}
