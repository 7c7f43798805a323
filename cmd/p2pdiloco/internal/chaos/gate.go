package chaos

import (
	"os"
	"path/filepath"
	"strconv"
)

// atGate is how many slots are left while the swarm waits for those that are not back yet: they are for all.
const atGate = 2

// openGate lets the swarm train up to the next fault's slot, or to the end once everybody is back. It never closes again.
func (r *runner) openGate() error {
	last := r.cfg.Slots
	gate := last
	switch {
	case len(r.pending) > 0:
		gate = r.pending[0].Slot
	case len(r.active) > 0:
		gate = last - atGate
	}
	if r.chasing() != nil { // there must be a slot to catch the leader in
		gate = max(gate, min(r.committed+1, last-1))
	}
	if gate <= r.gate {
		return nil
	}
	if gate == last {
		r.remember() // all are up, for the last time
	}
	r.gate = gate
	path := filepath.Join(r.dir, gateFile)
	if err := os.WriteFile(path+".new", []byte(strconv.FormatUint(gate, 10)), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path) // whole, whenever a peer looks
}
