package chaos

import (
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
)

// Phase is a part of a slot, from its leader's point of view.
type Phase string

// The phases of a slot.
const (
	PhaseIdle   Phase = "idle"   // inner steps
	PhasePlan   Phase = "plan"   // the reduction runs
	PhaseDraft  Phase = "draft"  // it asks which members hold the outcome
	PhaseVote   Phase = "vote"   // it asks for votes
	PhaseCommit Phase = "commit" // it has the certificate and passes it on
)

var phases = []Phase{PhaseIdle, PhasePlan, PhaseDraft, PhaseVote, PhaseCommit}

// A fault that waits for something is missed after a while. Where slots are slow, as on a busy
// machine, they count and not the time, up to a bound: a victim comes to each place, and a leader
// to each phase, in fairSlots. A peer keeps a checkpoint every four slots; one slot was under way
// before, and the last is told before it is over.
const (
	fairSlots  = 6
	chaseSlots = 12 // other faults need slots, too
	chaseFor   = 15 * time.Second
	chaseMost  = 60 * time.Second
	lastChance = 2 * time.Second // where the run has no slot left
)

// mayStillCome says whether to wait on for a fault that waits for something. A leader in its inner
// steps is found by what its peers say of themselves, and needs no slot.
func (r *runner) mayStillCome(f *fault) bool {
	since, passed := time.Since(f.armed), r.ledger.slot-f.BegunSlot
	if r.ledger.slot+1 >= r.cfg.Slots && f.Phase != PhaseIdle {
		return since < r.cfg.stretch(lastChance)
	}
	return passed < chaseSlots &&
		(since < r.cfg.stretch(chaseFor) || passed < fairSlots && since < r.cfg.stretch(chaseMost))
}

// chasing is the fault that waits for its phase, if there is one.
func (r *runner) chasing() *fault {
	if i := slices.IndexFunc(r.active, func(f *fault) bool { return !f.begun && !f.Missed }); i >= 0 {
		return r.active[i]
	}
	return nil
}

// chase strikes at a leader as soon as a log says that its phase has come.
func (r *runner) chase(f *fault, p *node, l eventlog.Line) {
	if id := f.caught(p, l); id != "" && r.strike(f, id) && f.Phase == PhaseCommit {
		// The slot had its certificate: to recover is to commit the next one. The event of this
		// one's commit may be younger than the kill.
		f.BegunSlot = max(f.BegunSlot, l.Slot)
	}
}

// reached are the phases of a leader by the newest event in its log that says one.
var reached = map[string]Phase{
	"peer.started": PhaseIdle, "state.synced": PhaseIdle, "slot.applied": PhaseIdle, "slot.planned": PhasePlan,
	"record.drafted": PhaseDraft, "record.proposed": PhaseVote, "record.certified": PhaseCommit,
	"slot.committed": PhaseCommit,
}

// caught is the ID of a leader that is in the wanted phase, according to an event of p; or empty.
// One has a certificate once another peer's log has it, too.
func (f *fault) caught(p *node, l eventlog.Line) string {
	if l.Slot <= f.BegunSlot || l.Kind != "" && l.Kind != "step" {
		return ""
	}
	switch phase := reached[l.Event]; {
	case phase == PhaseVote && f.Phase == PhaseCommit:
		f.proposer, f.proposal = p, l.Record
	case phase != f.Phase:
	case phase == PhasePlan:
		return l.Leader
	case phase == PhaseDraft, phase == PhaseVote:
		return p.ID
	case l.Event == "record.certified" && l.Record == f.proposal:
		return f.proposer.ID
	}
	return ""
}

// chaseIdle strikes at the leader of a slot that is not planned yet.
func (r *runner) chaseIdle(f *fault) {
	if f.Phase != PhaseIdle {
		return
	}
	for _, p := range r.sound() {
		if s := p.status; s.Height == r.ledger.height && s.Leader != "" {
			r.strike(f, s.Leader.String())
			return
		}
	}
}

// strike kills a leader, unless another fault hurts it already, and says whether it did.
func (r *runner) strike(f *fault, id string) bool {
	for _, p := range r.sound() {
		if p.ID != id {
			continue
		}
		_ = r.begin(f, p) // a kill does not fail
		// reads its last events; an error shows up again at the next read
		_ = r.follow(p)
		if f.PhaseHit = phaseReached(p.lines); f.Phase == PhaseCommit && f.PhaseHit == PhaseVote {
			f.PhaseHit = PhaseCommit // it had sent the certificate, as another peer's log says
		}
		r.note("its log ends in phase %s", f.PhaseHit)
		return true
	}
	return false
}

// phaseReached is the phase of the slot in which a killed leader's log breaks off.
func phaseReached(lines []eventlog.Line) Phase {
	for _, l := range slices.Backward(lines) {
		if phase, known := reached[l.Event]; known {
			return phase
		}
	}
	return PhaseIdle
}
