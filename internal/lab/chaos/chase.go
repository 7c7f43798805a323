package chaos

import (
	"slices"
	"time"
)

// A fault that waits for something is missed after a while. Where slots are slow, as on a busy
// machine, they count and not the time, up to a bound: a victim comes to each place in fairSlots. A
// peer keeps a checkpoint every four slots; one slot was under way before, and the last is told
// before it is over.
const (
	fairSlots  = 6
	chaseSlots = 12 // other faults need slots, too
	chaseFor   = 15 * time.Second
	chaseMost  = 60 * time.Second
	lastChance = 2 * time.Second // where the run has no slot left
)

// mayStillCome says whether to wait on for a fault that waits for something.
func (r *runner) mayStillCome(f *fault) bool {
	since, passed := time.Since(f.armed), r.ledger.slot-f.BegunSlot
	if r.ledger.slot+1 >= r.cfg.Slots {
		return since < r.cfg.stretch(lastChance)
	}
	return passed < chaseSlots &&
		(since < r.cfg.stretch(chaseFor) || passed < fairSlots && since < r.cfg.stretch(chaseMost))
}

// chasing says whether a fault waits for its leader.
func (r *runner) chasing() bool {
	return slices.ContainsFunc(r.active, func(f *fault) bool { return !f.begun && !f.Missed })
}

// chase strikes at whoever leads, at a moment of the next slot that the seed has drawn: in inner
// steps, in the reduction, in a vote. One that another fault hurts already is missed.
func (r *runner) chase(f *fault) error {
	if time.Since(f.armed) >= time.Duration(f.Pick%moments)*pause/4 {
		for _, p := range r.sound() {
			if s := p.status; s.Leader != "" && s.Leader == s.Peer {
				return r.begin(f, p)
			}
		}
	}
	f.Missed = !r.mayStillCome(f)
	return nil
}

// moments are how many there are of a slot: their distances are fourths of its inner steps.
const moments = 12
