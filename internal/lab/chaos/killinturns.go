package chaos

import (
	"fmt"
	"slices"
	"time"
)

// takeTurns kills the peers that are left once they have gone on, and starts those that died first.
func (r *runner) takeTurns(f *fault) error {
	if !f.turned.IsZero() {
		return nil
	}
	if r.ledger.slot == f.BegunSlot {
		if time.Since(f.began) < r.cfg.turnAfter() {
			return nil
		}
		r.inVain(f, noBranch)
	}
	f.others = slices.DeleteFunc(slices.Clone(r.nodes), func(p *node) bool { return p.gone })
	killAll(f.others)
	f.turned = time.Now()
	return r.startAll(f.victims)
}

// turned says whether those that died first have gone on, too: the same slot was committed anew, or
// another one.
func (r *runner) turned(f *fault) bool {
	switch {
	case f.turned.IsZero():
		return false
	case r.ledger.newest.After(f.turned):
		return true
	case time.Since(f.turned) < r.cfg.turnAfter():
		return false
	}
	if 2*len(f.victims) > len(f.members) {
		r.inVain(f, "those that had died first did not go on")
	}
	return true
}

const noBranch = "nobody went on as a branch"

// inVain takes note of what did not come within turnAfter though the fault is about it. Only with
// trust crash does a minority fork, and only where there is a slot left.
func (r *runner) inVain(f *fault, what string) {
	if !r.cfg.forks() || f.BegunSlot+1 >= r.cfg.Slots {
		return
	}
	r.odd = append(r.odd, fmt.Sprintf("slot %d: %s: %s in %v", f.BegunSlot, f, what, r.cfg.turnAfter()))
}

// needsSlot says whether peers need a slot to go on with, while others are gone, so that one writes
// to a full disk, or so that one comes to a place where it fails.
func (r *runner) needsSlot() bool {
	return slices.ContainsFunc(r.active, func(f *fault) bool {
		return f.stage == on && (f.Kind == Turns || !f.filled.IsZero() || f.Kind == Failpoint && r.onItsWay(f) ||
			f.Kind == Load && r.ledger.slot == f.BegunSlot) // it kills its victim after a slot
	})
}
