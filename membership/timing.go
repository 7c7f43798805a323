package membership

import "time"

// Timing decides only who acts when; no record is checked against it.
type Timing struct {
	Alive       time.Duration // between ALIVEs
	Beat        time.Duration // between a leader's BEATs
	Patience    time.Duration // a counter that rose within Patience x 2^min(ballot,5) keeps its leader
	Lost        time.Duration // a member unheard for so long is left out of the next record
	Gone        time.Duration // a member that nobody reaches any more is not waited for after so long; 0: only Lost counts
	MinGrace    time.Duration // least grace window after most contributors have offered
	GraceFactor float64       // grace = max(MinGrace, GraceFactor x recent spread of finishing times)
	GraceShare  float64       // of the time that most took to offer: the longest grace above MinGrace; 0: no such bound
	Straggler   time.Duration // the longest that one straggler holds up a slot
	Beside      uint32        // inner steps, of as many as its offer says, that a contributor does before it waits for the slot; 0: it waits at once
	FoundAfter  time.Duration // discovery window
	ForkAfter   time.Duration // without a quorum for so long, those who are left fork; 0: never by themselves
	Linger      time.Duration // how long a member serves others after the last slot
	Retry       time.Duration // between repeats of what was not answered
}

// tick is how often a machine is to look at the clock.
func (t Timing) tick() time.Duration {
	every := t.Beat / 2
	if t.Gone > 0 {
		every = min(every, t.Gone/2)
	}
	return max(every, time.Millisecond)
}
