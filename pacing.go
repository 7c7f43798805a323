package p2pdiloco

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership"
	"github.com/p2pdiloco/p2pdiloco/outeropt"
)

// Paces of a run (Spec.Pace): how many inner steps a peer does in a round.
const (
	PaceSteps    = "steps"    // H, everybody
	PaceDyLU     = "dylu"     // H of who is as fast as the fastest, of others as many as they do in that time: by the speeds in the records
	PaceDeadline = "deadline" // as many as each can until all finish together, round_time after they began
)

// maxSteps bounds the inner steps of a round, as inner_steps is bounded.
const maxSteps = 1 << 30

// tempo is what this peer measured of its own inner steps.
type tempo struct {
	mu struct {
		sync.Mutex
		recent []time.Duration // of one inner step in the newest rounds, the newest last
		steps  int             // of the newest round
		done   int             // of the round under way
		given  bool            // the newest measure is the caller's
		open   uint64          // the newest slot that opened while this node watched
		since  time.Time
	}
}

// tempoKept is over how many rounds the median is: one odd round in three does not move it.
const tempoKept = 3

// note takes a round's measure.
func (t *tempo) note(steps int, took time.Duration) {
	if steps <= 0 || took <= 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.steps = steps
	t.mu.recent = append(t.mu.recent, took/time.Duration(steps))
	t.mu.recent = t.mu.recent[max(0, len(t.mu.recent)-tempoKept):]
}

// whole says how many steps there were in a round that was measured in parts.
func (t *tempo) whole(steps int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.steps = steps
}

// begin and progress follow the round under way, so that one that is cut short leaves a measure, too.
func (t *tempo) begin() { t.progress(0) }

func (t *tempo) progress(stepsDone int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.done = stepsDone
}

// cut takes the measure of a round that was cut short: of the steps done and the one at work, or, if the trainer said nothing of
// them, of all that it was to do, which is the least that they can have taken.
func (t *tempo) cut(steps int, took time.Duration) {
	t.mu.Lock()
	if t.mu.done > 0 {
		steps = min(steps, t.mu.done+1)
	}
	t.mu.Unlock()
	t.note(steps, took)
}

// newest is what an inner step of the last round took, in microseconds; 0 for unknown.
func (t *tempo) newest() uint32 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.mu.recent) == 0 {
		return 0
	}
	us := t.mu.recent[len(t.mu.recent)-1].Microseconds()
	return uint32(min(max(1, us), math.MaxUint32))
}

func (t *tempo) median() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.mu.recent) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(t.mu.recent))
	return sorted[len(sorted)/2]
}

// on puts the newest measure on an offer.
func (t *tempo) on(o membership.ReportOffer) membership.ReportOffer {
	o.StepTime = t.newest()
	t.mu.Lock()
	defer t.mu.Unlock()
	o.Steps = uint32(min(t.mu.steps, math.MaxUint32))
	return o
}

// opened notes that a slot's turn has come.
func (t *tempo) opened(slotNumber uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if slotNumber != t.mu.open {
		t.mu.open, t.mu.since = slotNumber, time.Now()
	}
}

// left is the time until a round for a slot is to end. The peers have the borders of slots in common: the open one began at the same moment
// for all, and so a peer that began late does less. In an overlapped mode the round's slot is the one after that.
func (t *tempo) left(slotNumber uint64, round time.Duration) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.open == 0 || t.mu.open > slotNumber || slotNumber > t.mu.open+1 {
		return round
	}
	return time.Duration(slotNumber-t.mu.open+1)*round - time.Since(t.mu.since)
}

// Measured says how long the inner steps of the round took that Sync or Begin is called for next, where that is not the time since the last
// of these calls returned: because the loop did other than Task.Steps and does not tell by Progress, or something else meanwhile. The run's
// pace goes by it.
func (n *Node) Measured(steps int, took time.Duration) {
	n.tempo.note(steps, took)
	n.tempo.mu.Lock()
	defer n.tempo.mu.Unlock()
	n.tempo.mu.given = true
}

// clocked is Measured by the clock, unless the caller has measured for itself: of the steps that it has told of (Progress), or of all.
func (n *Node) clocked(took time.Duration) {
	n.tempo.mu.Lock()
	given, done := n.tempo.mu.given, n.tempo.mu.done
	n.tempo.mu.given = false
	n.tempo.mu.Unlock()
	task := n.task.Load()
	switch {
	case task == nil || given:
	case n.spec.Streams(): // since the slot before has landed
		n.tempo.note(task.Steps, took)
		n.tempo.whole(int(task.Done) + task.Steps)
	default: // it may offer early
		n.tempo.note(cmp.Or(done, task.Steps), took)
	}
}

// paced is how many inner steps to do in a round for a slot, from the anchor of the one before.
func (n *Node) paced(v membership.View, slotNumber uint64) int {
	h, base := n.spec.InnerSteps, slotNumber-1
	switch n.spec.Pace {
	case PaceDyLU:
		steps := v.Pace.Steps(n.Self(), base)
		if own := n.tempo.newest(); own > 0 { // slower than the records know: the others are not to wait for them to learn of it
			steps = min(steps, v.Pace.StepsAt(own, base))
		}
		return int(steps)
	case PaceDeadline:
		step := n.tempo.median()
		if step == 0 {
			return int(max(1, h/4))
		}
		return int(min(max(1, n.tempo.left(slotNumber, n.spec.roundTime())/step), maxSteps))
	}
	return n.spec.interval(slotNumber)
}

// paces is what a status says of the members' inner steps.
type paces struct {
	spec Spec
	pace membership.Pace
	of   []slot.Member
	base uint64                       // of a round that begins now
	dylu map[uint64]map[PeerID]uint32 // steps, by base: they cost too much to be found for each member anew
}

func (n *Node) paces(v membership.View) paces {
	base := v.Tip.Slot
	if n.overlaps() {
		base++
	}
	return paces{n.spec, v.Pace, v.Tip.Members, base, make(map[uint64]map[PeerID]uint32)}
}

// assigned is how many inner steps a member has in a round from the anchor of slot base; 0 where that is its own choice.
func (p paces) assigned(peer PeerID, base uint64) uint32 {
	switch p.spec.Pace {
	case PaceSteps:
		return uint32(p.spec.interval(base + 1))
	case PaceDyLU:
		if p.dylu[base] == nil {
			p.dylu[base] = p.pace.All(base, p.of)
		}
		return p.dylu[base][peer]
	}
	return 0
}

// tell adds to what a status says of a member.
func (p paces) tell(s MemberStatus) MemberStatus {
	s.Assigned = p.assigned(s.Peer, p.base)
	if o, ok := p.pace.Newest(s.Peer); ok {
		s.Contribution = &ContributionStatus{
			Slot: o.Slot, Staleness: o.Slot - 1 - o.Base, Steps: o.Steps, StepTime: time.Duration(o.StepTime) * time.Microsecond,
			Assigned: p.assigned(s.Peer, o.Base),
		}
	}
	return s
}

// roundTime is the spec's round_time.
func (s Spec) roundTime() time.Duration {
	seconds, _ := strconv.ParseFloat(s.RoundTime, 64) // validated
	return time.Duration(seconds * float64(time.Second))
}

// asyncDefaults are those of mode async.
func (s *Spec) asyncDefaults() {
	s.Outer = cmp.Or(s.Outer, outeropt.SGD) // what is late costs least without momentum (docs/benchmarks.md)
	s.Pace = cmp.Or(s.Pace, PaceDyLU)
	if s.Outer == outeropt.DelayedNesterov { // of what was tried the fastest that does not swing
		s.Momentum, s.DNEvery = cmp.Or(s.Momentum, "0.6"), cmp.Or(s.DNEvery, 2)
	}
	if len(s.Discount) == 0 {
		s.Discount = []uint64{1000, 500, 333, 250}
	}
}

// checkPace says what of the fields given does not go together.
func (s Spec) checkPace() (errs []error) {
	fault := func(field, here, why string) { errs = append(errs, &SpecError{Field: field, Here: here, Why: why}) }
	switch timed := s.RoundTime != "" && s.roundTime() > 0; {
	case s.Pace == PaceDeadline && s.RoundTime == "":
		fault("pace", s.Pace, "it needs the seconds that a round is to take, too: round_time")
	case s.Pace == PaceDeadline && !timed:
		fault("round_time", s.RoundTime, "pace deadline needs the seconds that a round is to take")
	case s.Pace != PaceDeadline && s.Pace != "" && timed:
		fault("round_time", s.RoundTime, "only pace deadline has one")
	}
	if (s.Fragments > 1 || s.Mode == ModeStreaming) && s.Pace != PaceSteps && s.Pace != "" {
		fault("pace", s.Pace, "with fragments, and in mode streaming, only steps: the borders of the slots are the same for all")
	}
	return errs
}

// ledgerTiming is the preset's, with the inner steps that peers do beside a slot, and in mode async that of slots that do not wait for who is
// late: what misses one enters the next.
func (n *Node) ledgerTiming() membership.Timing {
	t := n.timing.ledger
	switch {
	case n.spec.Streams():
		t.Beside = uint32(n.spec.delay())
	case n.overlaps():
		t.Beside = maxSteps
	}
	if n.spec.Mode == ModeAsync {
		t.MinGrace, t.GraceShare = t.Beat, asyncGrace
	}
	return t
}

// asyncGrace is for which part of a slot mode async waits for who is late.
const asyncGrace = 0.25
