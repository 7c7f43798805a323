package chaos

import (
	"path/filepath"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/crew"
)

// atGate is how many slots remain while the swarm waits for peers that are not back yet, so that
// all take part in them.
const atGate = 2

// gate holds the swarm back until the next fault.
type gate struct {
	slot   uint64        // the newest that peers may train for
	held   time.Duration // that the swarm waited
	looked time.Time
}

// look counts the time since the last look if the swarm has waited.
func (g *gate) look(waiting bool) {
	now := time.Now()
	if waiting {
		g.held += now.Sub(g.looked)
	}
	g.looked = now
}

// stepAfter is how long a peer may be on its way back before the gate opens for one more slot.
const stepAfter = 2 * time.Second

// awaitsStep says whether a peer that comes back may wait for a step: with trust byzantine its JOIN
// is recorded with one.
func (r *runner) awaitsStep() bool {
	return r.cfg.Trust == p2pdiloco.TrustByzantine && slices.ContainsFunc(r.active, func(f *fault) bool {
		return f.stage == returning && time.Since(f.lifted) > stepAfter
	})
}

// openGate lets the swarm train up to the next fault's slot, or to the end once all peers are back.
// The gate never closes again.
func (r *runner) openGate() error {
	last := r.cfg.Slots
	next := last
	switch {
	case len(r.pending) > 0:
		next = r.pending[0].Slot
	case len(r.active) > 0:
		next = last - atGate
	}
	if r.chasing() != nil { // the leader can only be caught in a slot
		next = max(next, min(r.ledger.slot+1, last-1))
	}
	if r.awaitsStep() {
		next = max(next, min(r.ledger.slot+1, last-1))
	}
	if next <= r.gate.slot {
		return nil
	}
	if next == last {
		r.remember() // all peers are up for the last time
	}
	r.gate.slot = next
	return crew.OpenGate(filepath.Join(r.dir, gateFile), next)
}
