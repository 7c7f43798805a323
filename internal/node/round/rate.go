package round

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/p2pdiloco/p2pdiloco/allreduce/figures"
	"github.com/p2pdiloco/p2pdiloco/membership"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// stepRate is what this peer measured of its own inner steps, and of the slots beside them.
type stepRate struct {
	mu struct {
		sync.Mutex
		step  time.Duration // of one inner step in the newest round; 0: unknown
		steps int           // of the newest round
		done  int           // of the round that runs
		given bool          // the newest measure is the caller's
	}
	phase  time.Duration // of the newest inner steps; of the goroutine that runs the rounds
	newest atomic.Int64  // nanoseconds that the newest reduction took
}

// note adds a round's measure.
func (r *stepRate) note(steps int, took time.Duration) {
	if steps <= 0 || took <= 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.steps = steps
	r.mu.step = max(took/time.Duration(steps), time.Microsecond)
}

// whole says how many steps there were in a round that was measured in parts.
func (r *stepRate) whole(steps int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.steps = steps
}

// give takes a measure that the caller has made.
func (r *stepRate) give(steps int, took time.Duration) {
	r.note(steps, took)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.given = true
}

// told returns how many steps of the running round the caller has reported, and whether it has
// given a measure. The measure holds for one round.
func (r *stepRate) told() (done int, given bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	given = r.mu.given
	r.mu.given = false
	return r.mu.done, given
}

// begin and progress follow the round that runs, so that one that is cut short leaves a measure,
// too.
func (r *stepRate) begin() { r.progress(0) }

func (r *stepRate) progress(stepsDone int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.done = stepsDone
}

// cut takes the measure of a round that was cut short: of the steps done and the one under way. If
// the trainer did not report its steps, the time is divided by all steps of the round, which gives
// the least that a step can have taken.
func (r *stepRate) cut(steps int, took time.Duration) {
	r.mu.Lock()
	if r.mu.done > 0 {
		steps = min(steps, r.mu.done+1)
	}
	r.mu.Unlock()
	r.note(steps, took)
}

// micros returns how long an inner step of the last round took, in microseconds; 0 for unknown.
func (r *stepRate) micros() uint32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return uint32(min(r.mu.step.Microseconds(), math.MaxUint32))
}

// fill adds the newest measure to an offer.
func (r *stepRate) fill(o membership.ReportOffer) membership.ReportOffer {
	o.StepTime = r.micros()
	r.mu.Lock()
	defer r.mu.Unlock()
	o.Steps = uint32(min(r.mu.steps, math.MaxUint32))
	return o
}

// watch notes how long a slot's reduction takes, from when its plan was seen first. Two slots may
// be watched at a time: one that was given up, and the next.
func (r *stepRate) watch(v membership.View, slotNumber uint64, planned *time.Time) {
	switch {
	case v.Plan != nil && v.Plan.Slot == slotNumber && planned.IsZero():
		*planned = time.Now()
	case v.AppliedSlot >= slotNumber && !planned.IsZero():
		r.newest.Store(int64(time.Since(*planned)))
	}
}

// reduction returns how long the newest reduction took, from the first plan that was seen to the
// end of its slot.
func (r *stepRate) reduction() time.Duration { return time.Duration(r.newest.Load()) }

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
	g.mu.stats.TrainLoss = figures.Finite(s.Loss)
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
	g.mu.stats.Loss, g.mu.stats.LossSlot = figures.Finite(loss), slotNumber
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
