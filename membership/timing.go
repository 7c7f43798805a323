package membership

import (
	"cmp"
	"time"
)

// Timing decides only when a peer acts; no record is checked against it.
type Timing struct {
	Alive time.Duration // between ALIVEs
	// of the square of the members' number: as long is the time between two ALIVEs at most, to
	// which it doubles after each news while nothing is offered. Each ALIVE goes to all members,
	// and to some more than once. 0: they come every Alive
	Quiet time.Duration
	Beat  time.Duration // between a leader's BEATs
	// How long a leader has for a record without a step, doubled with each term. In trust crash
	// progress within Patience x 2^min(term,5) keeps the leader, also in a step.
	Patience time.Duration
	// how long a leader has for a step at least, where members may lie; 0: 4 Patience
	Term time.Duration
	// a member that was not heard for this time is left out of the next record
	Lost time.Duration
	// after this time no peer waits for a member that nobody reaches any more; 0: only Lost counts
	Gone     time.Duration
	MinGrace time.Duration // least grace window after most contributors have offered
	// grace = max(MinGrace, GraceFactor x recent spread of finishing times)
	GraceFactor float64
	// of the time that most took to offer: the longest grace above MinGrace; 0: no such bound
	GraceShare float64
	Straggler  time.Duration // the longest that one straggler holds up a slot
	// inner steps, of as many as its offer says, that a contributor does before it waits for the
	// slot; 0: it waits at once
	Beside     uint32
	FoundAfter time.Duration // discovery window
	// after this time without a quorum the peers that are left fork; 0: only on an operator's order
	ForkAfter time.Duration
	Linger    time.Duration // how long a member serves others after the last slot
	Retry     time.Duration // between repeats of what was not answered
}

// leastTerm is how long a leader has for a step at least, where members may lie.
func (t Timing) leastTerm() time.Duration { return cmp.Or(t.Term, 4*t.Patience) }

// tick is the time between two calls of Machine.Tick.
func (t Timing) tick() time.Duration {
	every := t.Beat / 2
	if t.Gone > 0 {
		every = min(every, t.Gone/2)
	}
	return max(every, time.Millisecond)
}
