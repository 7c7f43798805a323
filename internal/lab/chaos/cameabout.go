package chaos

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// CheckHappen is the check that faults that wait for something did come about.
const CheckHappen = "faults come about"

// fairSlots is in how many slots a victim comes to each place, and a leader to each phase: a peer
// keeps a checkpoint every four slots.
const fairSlots = 4

// chaseSlots is in how many slots at most a fault may come about. Other faults need slots, too.
const chaseSlots = 3 * fairSlots

// mayStillCome says whether to wait on for a fault that waits for something. Where slots are slow,
// as on a busy machine, they count and not the time, up to a bound.
func (r *runner) mayStillCome(f *fault) bool {
	since := time.Since(f.armedAt)
	switch {
	case r.passed(f) >= chaseSlots:
		return false
	case f.Kind == Leader && r.ledger.slot+1 >= r.cfg.Slots:
		return since < r.cfg.stretch(f.lastChance())
	}
	return since < r.cfg.stretch(chaseFor) || r.passed(f) < f.fair() && since < r.cfg.stretch(chaseMost)
}

// lastChance is how long a fault may take to come about where the run has no slot left for it. A
// leader in its inner steps is found by what its peers say of themselves, and needs no slot.
func (f *fault) lastChance() time.Duration {
	if f.Kind == Leader && f.Phase == PhaseIdle {
		return chaseFor
	}
	return lastChance
}

// fair is how many slots must have passed until a fault has had its chance. A failpoint needs two
// more: one was under way when it got its order, and the last is told before it is over.
func (f *fault) fair() uint64 {
	if f.Kind == Failpoint {
		return fairSlots + 2
	}
	return fairSlots
}

// passed counts the slots that passed since a fault was armed: those that its victim has applied,
// and for a leader, whoever that is, those of the swarm.
func (r *runner) passed(f *fault) (slots uint64) {
	if f.Kind == Leader {
		return r.ledger.slot - f.BegunSlot
	}
	for _, l := range f.victims[0].lines[f.from:] {
		if l.Event == "slot.applied" {
			slots++
		}
	}
	return slots
}

// checkHappen: a fault that comes about never is one that a run says nothing of. Those that were
// missed are counted, and named. Half of all faults must have come about, and of a kind that was
// drawn more than once at least one.
func (r *runner) checkHappen() Check {
	drawn, came, missed := map[string]int{}, map[string]bool{}, map[string]int{}
	all := 0
	for _, f := range r.done {
		drawn[string(f.Kind)]++
		if f.Missed {
			missed[f.name()]++
			all++
		} else {
			came[string(f.Kind)] = true
		}
	}
	var faults []string
	for _, kind := range slices.Sorted(maps.Keys(drawn)) {
		if n := drawn[kind]; n > 1 && !came[kind] {
			faults = append(faults, fmt.Sprintf("%s: all of %d were missed", kind, n))
		}
	}
	if 2*all > len(r.done) {
		faults = append(faults, fmt.Sprintf("%d of %d faults were missed", all, len(r.done)))
	}
	fine := []string{fmt.Sprintf("%d of %d", len(r.done)-all, len(r.done))}
	for _, name := range slices.Sorted(maps.Keys(missed)) {
		fine = append(fine, fmt.Sprintf("%s: %d missed", name, missed[name]))
	}
	return verdict(CheckHappen, faults, strings.Join(fine, "; "))
}

// name is the kind of a fault, and the phase or place of it.
func (f Fault) name() string {
	if at := string(f.Phase) + string(f.Place); at != "" {
		return string(f.Kind) + ":" + at
	}
	return string(f.Kind)
}
