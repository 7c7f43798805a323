package round

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// Stats say how the training goes at this peer. Unknown values are nil.
type Stats struct {
	Loss      *float64 // held-out, of the newest anchor that was measured
	LossSlot  uint64   // which one that is
	TrainLoss *float64 // mean over the newest round's inner steps
	Tokens    uint64   // or samples, behind this peer's pseudo-gradients
}

// gauges keep the newest Stats.
type gauges struct {
	mu struct {
		sync.Mutex
		stats Stats
	}
}

func (g *gauges) stats() Stats {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mu.stats
}

// trained takes in the result of a round of inner steps.
func (g *gauges) trained(s trainer.Stats) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.stats.TrainLoss = known(s.Loss, true)
}

// encoded counts the tokens of a pseudo-gradient that was encoded.
func (g *gauges) encoded(tokens uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.stats.Tokens += tokens
}

// measured takes in the loss of the anchor after a slot.
func (g *gauges) measured(slotNumber uint64, loss float64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.stats.Loss, g.mu.stats.LossSlot = known(loss, true), slotNumber
}

// known returns a value that a JSON document can hold, or nil if it cannot.
func known(v float64, ok bool) *float64 {
	if !ok || math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

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
