package chaos

import (
	"path/filepath"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/swarm"
)

// atGate is how many slots remain while the swarm waits for peers that are not back yet, so that
// all take part in them.
const atGate = 2

// gate holds the swarm back until the next fault.
type gate struct {
	slot   uint64        // the newest that peers may train for
	held   time.Duration // that the swarm waited
	looked time.Time
	step   time.Time            // when it last opened for a step that a peer waits for
	opened map[uint64]time.Time // for each slot
}

// look counts the time since the last look if the swarm has waited.
func (g *gate) look(waiting bool) {
	now := time.Now()
	if waiting {
		g.held += now.Sub(g.looked)
	}
	g.looked = now
}

// opens lets peers train up to a slot.
func (g *gate) opens(last uint64) {
	if g.opened == nil {
		g.opened = map[uint64]time.Time{}
	}
	for slot := g.slot + 1; slot <= last; slot++ {
		g.opened[slot] = time.Now()
	}
	g.slot = last
}

// stepAfter is how long a peer is on its way back before the gate opens for one more slot, and how
// long it then takes until the gate opens again.
const stepAfter = 2 * time.Second

// awaitsStep says whether a peer that comes back waits for a step: with trust byzantine its JOIN is
// recorded with one. It asks to be listed once it holds the newest state, so a step before that
// would be lost, and the last ones are few.
func (r *runner) awaitsStep() bool {
	if r.cfg.Trust != p2pdiloco.TrustByzantine || time.Since(r.gate.step) < stepAfter {
		return false
	}
	return slices.ContainsFunc(r.active, func(f *fault) bool {
		return f.stage == returning && time.Since(f.lifted) > stepAfter &&
			slices.ContainsFunc(r.awaited(f), r.asksToJoin)
	})
}

// asksToJoin says whether a peer is no member and holds the newest state.
func (r *runner) asksToJoin(p *node) bool {
	return p.running() && p.status.Slot >= r.ledger.slot && !slices.Contains(r.ledger.members, p.ID)
}

// openGate lets the swarm train up to the next fault's slot, or to the end once all peers are back.
// The gate never closes again.
func (r *runner) openGate() error {
	last := r.cfg.Slots
	next := last
	switch {
	case r.soak != nil:
		next = r.ahead()
	case len(r.pending) > 0:
		next = r.pending[0].Slot
	case len(r.active) > 0 && !r.active[0].Kind.last(): // then no other fault is under way
		next = last - atGate
	}
	if r.chasing() != nil { // the leader can only be caught in a slot
		next = max(next, min(r.ledger.slot+1, last-1))
	}
	if r.needsSlot() || r.awaitsReduction() {
		next = max(next, min(r.ledger.slot+1, last-1))
	}
	if r.awaitsStep() {
		next, r.gate.step = max(next, min(r.ledger.slot+1, last-1)), time.Now()
	}
	if next <= r.gate.slot {
		return nil
	}
	if next == last {
		r.remember() // all peers are up for the last time
	}
	r.gate.opens(next)
	return swarm.OpenGate(filepath.Join(r.dir, gateFile), next)
}
