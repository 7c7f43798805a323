package chaos

import (
	"slices"
	"time"
)

// takeTurns kills the peers that are left once they have gone on, and starts those that died first.
func (r *runner) takeTurns(f *fault) error {
	if !f.turned.IsZero() || r.ledger.slot == f.BegunSlot && time.Since(f.began) < r.cfg.turnAfter() {
		return nil
	}
	f.others = slices.DeleteFunc(slices.Clone(r.nodes), func(p *node) bool { return p.gone })
	killAll(f.others)
	f.turned = time.Now()
	return r.startAll(f.victims)
}

// turned says whether those that died first have gone on, too: the same slot was committed anew, or
// another one.
func (r *runner) turned(f *fault) bool {
	return !f.turned.IsZero() && (r.ledger.newest.After(f.turned) || time.Since(f.turned) >= r.cfg.turnAfter())
}

// needsSlot says whether peers need a slot to go on with, while others are gone, so that one writes
// to a full disk, or so that one comes to a place where it fails.
func (r *runner) needsSlot() bool {
	return slices.ContainsFunc(r.active, func(f *fault) bool {
		return f.stage == on && (f.Kind == Turns || !f.filled.IsZero() || f.Kind == Failpoint && r.onItsWay(f))
	})
}
