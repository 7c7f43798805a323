package chaos

import (
	"path/filepath"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/lab"
)

// atGate is how many slots remain while the swarm waits for peers that are not back yet, so that
// all take part in them.
const atGate = 2

// gate holds the swarm back until the next fault.
type gate struct {
	slot uint64    // the newest that peers may train for
	step time.Time // when it last opened for a step that a peer waits for
}

// stepAfter is how long a peer is on its way back before the gate opens for one more slot, and how
// long it then takes until the gate opens again.
const stepAfter = 2 * time.Second

// needsSlot says whether a fault only goes on with a slot: a leader is caught in one, or peers go
// on while others are gone, or one writes to a full disk, or comes to a place where it fails.
func (r *runner) needsSlot() bool {
	return r.chasing() || slices.ContainsFunc(r.active, func(f *fault) bool {
		return f.doing("advance", "full", "reached")
	})
}

// awaitsStep says whether a peer that comes back waits for a step: with trust byzantine its JOIN is
// recorded with one. It asks to be listed once it holds the newest state, so a step before that
// would be lost, and the last ones are few.
func (r *runner) awaitsStep() bool {
	if r.cfg.forks() || time.Since(r.gate.step) < stepAfter {
		return false
	}
	return slices.ContainsFunc(r.active, func(f *fault) bool {
		some := f.hit
		if f.is(branch) {
			some = r.nodes
		}
		return f.doing("back") && time.Since(f.since) > stepAfter && slices.ContainsFunc(some, func(p *node) bool {
			// after a partition the list here may be older than what the peer says of itself
			asks := p.status.Phase == p2pdiloco.PhaseJoining || !slices.Contains(r.ledger.members, p.ID)
			return p.running() && p.status.Slot >= r.ledger.slot && asks
		})
	})
}

// openGate lets the swarm train up to the next fault's slot, or to the end once all peers are back.
// The gate never closes again.
func (r *runner) openGate() error {
	end := r.cfg.Slots
	next := end
	switch {
	case r.limit != nil:
		next = r.limit()
	case len(r.pending) > 0:
		next = r.pending[0].Slot
	case len(r.active) > 0 && r.active[0].kind != End: // then no other fault is under way
		next = end - atGate
	}
	if r.needsSlot() {
		next = max(next, min(r.ledger.slot+1, end-1))
	}
	if r.awaitsStep() { // also the last one, where there is no other left
		r.gate.step = time.Now()
		next = max(next, min(r.ledger.slot+1, end))
	}
	if next <= r.gate.slot {
		return nil
	}
	r.gate.slot = next
	return lab.OpenGate(filepath.Join(r.dir, gateFile), next)
}
