package chaos

import (
	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
)

// chasing is the fault that waits for its phase, if there is one.
func (r *runner) chasing() *fault {
	for _, f := range r.active {
		if f.stage == armed {
			return f
		}
	}
	return nil
}

// chase strikes at a leader as soon as a log says that its phase has come.
func (r *runner) chase(f *fault, p *node, l eventlog.Line) {
	id := f.caught(p, l)
	if id == "" {
		return
	}
	if r.strike(f, id) && f.Phase == PhaseCommit {
		f.certified(l.Slot)
	}
}

// certified notes that the slot in which a leader died had its certificate already: to recover is
// to commit the next one. The event of this one's commit may be younger than the kill.
func (f *fault) certified(slot uint64) { f.BegunSlot = max(f.BegunSlot, slot) }

// caught is the ID of a leader that is in the wanted phase, according to an event of p; or empty.
func (f *fault) caught(p *node, l eventlog.Line) (id string) {
	if l.Slot <= f.BegunSlot || l.Kind != "" && l.Kind != "step" {
		return ""
	}
	switch {
	case f.Phase == PhasePlan && l.Event == "slot.planned":
		return l.Leader
	case f.Phase == PhaseDraft && l.Event == "record.drafted", f.Phase == PhaseVote && l.Event == "record.proposed":
		return p.ID
	case f.Phase == PhaseCommit && l.Event == "record.proposed":
		f.proposer, f.proposal = p, l.Record
	case f.Phase == PhaseCommit && l.Event == "record.certified" && l.Record == f.proposal:
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
		return true
	}
	return false
}
