package chaos

import (
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
)

// ledger is what the peers' event logs say together about the run.
type ledger struct {
	slot     uint64 // the newest in any log
	commits  map[uint64]time.Time
	tokens   map[uint64]uint64 // of the contributions to each slot
	newest   time.Time         // when a slot was last committed, in any log
	height   uint64
	members  []string // of the newest record in any log
	progress time.Time
}

func newLedger() ledger {
	return ledger{commits: map[uint64]time.Time{}, tokens: map[uint64]uint64{}}
}

// observe takes in one line of a log.
func (g *ledger) observe(l eventlog.Line) {
	switch l.Event {
	case "record.certified":
		if l.Height > g.height {
			g.height, g.progress = l.Height, time.Now()
		}
	case "slot.committed":
		if at, known := g.commits[l.Slot]; !known || l.Time.Before(at) {
			g.commits[l.Slot] = l.Time
		}
		if l.Time.After(g.newest) {
			g.newest = l.Time
		}
		g.slot = max(g.slot, l.Slot)
	case "slot.stats":
		g.tokens[l.Slot] = l.Weight
	case "slot.applied", "state.synced", "peer.started", "run.switched":
		g.progress = time.Now()
	}
	if l.Height >= g.height && (l.Event == "slot.committed" || l.Event == "members.changed") {
		g.members = l.Members
	}
}
