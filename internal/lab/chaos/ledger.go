package chaos

import (
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
)

// ledger is what the peers' event logs say together about the run.
type ledger struct {
	slot     uint64 // the newest in any log
	commits  map[uint64]time.Time
	tokens   map[uint64]uint64    // of the contributions to each slot; nil: not counted
	newest   time.Time            // when a slot was last committed, in any log
	planned  uint64               // the newest slot of which a log has a plan
	plans    map[uint64]time.Time // when a log first had one of a slot
	height   uint64
	members  []string // of the newest record in any log
	progress time.Time
}

func newLedger() ledger {
	return ledger{commits: map[uint64]time.Time{}, plans: map[uint64]time.Time{}}
}

// observe takes in one line of a log.
func (g *ledger) observe(l eventlog.Line) {
	switch l.Event {
	case "record.certified":
		if l.Height > g.height {
			g.height, g.progress = l.Height, time.Now()
		}
	case "slot.planned":
		if _, known := g.plans[l.Slot]; !known {
			g.planned = max(g.planned, l.Slot)
			g.plans[l.Slot] = l.Time
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
		if g.tokens != nil {
			g.tokens[l.Slot] = l.Weight
		}
	case "slot.applied", "state.synced", "peer.started", "run.switched":
		g.progress = time.Now()
	}
	if l.Height >= g.height && (l.Event == "slot.committed" || l.Event == "members.changed") {
		g.members = l.Members
	}
}

// reducing says whether a slot is planned that is not committed.
func (g *ledger) reducing() bool { return g.planned > g.slot }

// reductions are how long slots took from their first plan until they were committed, in seconds.
func (g *ledger) reductions() (took []float64) {
	for slot, from := range g.plans {
		if at, done := g.commits[slot]; done && at.After(from) {
			took = append(took, at.Sub(from).Seconds())
		}
	}
	return took
}
