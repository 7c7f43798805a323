package membership

import (
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// recentSlots is of how many slots the times that a grace window goes by are kept.
const recentSlots = 4

// graceEnds is when the window closes. It opens once most contributors have offered, lasts GraceFactor times the recent spread
// of finishing times, and no longer than one straggler may hold up a slot; fewer than most wait four times as long for more. GraceShare
// keeps it in proportion: whoever slows down in the middle of a run costs the others that share of a slot, however long theirs take.
// Where contributors train on beside a reduction, it lasts for as long as that costs nobody anything.
func (m *Machine) graceEnds(offers []slot.Offer, contributors int) time.Duration {
	t := m.cfg.Timing
	at := m.offerTimes(offers)
	most := contributors/2 + 1
	if len(at) < most {
		return at[0] + 4*t.Straggler
	}
	spread := time.Duration(t.GraceFactor * float64(slices.Max(m.spreads[:])))
	if t.GraceShare > 0 && m.slotAt != never {
		spread = min(spread, time.Duration(t.GraceShare*float64(at[most-1]-m.slotAt)))
	}
	return max(at[most-1]+min(max(t.MinGrace, spread), max(t.Straggler, t.MinGrace)), m.idleFrom(offers))
}

// idleFrom is the latest that a reduction may begin if no contributor is to stand still because of it: the first that offered is through
// with its inner steps beside the slot then, less what reductions take. never if they do none. What is stale was late for another slot, and
// had its time. How long those inner steps take is what half of the offers say at most, so that no single one can draw it out.
func (m *Machine) idleFrom(offers []slot.Offer) time.Duration {
	t := m.cfg.Timing
	fresh := slices.DeleteFunc(slices.Clone(offers), func(o slot.Offer) bool { return o.Base+1 != o.Slot })
	if t.Beside == 0 || len(fresh) == 0 {
		return never
	}
	var beside []time.Duration
	for _, o := range fresh {
		took := float64(min(o.Steps, t.Beside)) * float64(o.StepTime) * float64(time.Microsecond)
		beside = append(beside, time.Duration(min(took, float64(4*t.Straggler))))
	}
	slices.Sort(beside)
	lasts := beside[(len(beside)-1)/2]
	return m.offerTimes(fresh)[0] + lasts - m.reduction(lasts)
}

// reduction is how long it takes from a plan to its record, with some to spare: that of the second slowest of recent slots, so that one
// that a peer was lost in does not count; half of the time there is, as long as nothing is known.
func (m *Machine) reduction(lasts time.Duration) time.Duration {
	known := slices.DeleteFunc(slices.Clone(m.reductions[:]), func(d time.Duration) bool { return d == 0 })
	if len(known) == 0 {
		return lasts / 2
	}
	slices.Sort(known)
	return known[max(0, len(known)-2)] * 5 / 4
}

// noteReduction remembers how long the open slot took from its plan to its record.
func (m *Machine) noteReduction(r slot.Record) {
	p := m.open.last
	if p == nil || p.Slot != r.Slot {
		return
	}
	took := max(1, m.now-m.open.testimony.since)
	m.noteUsual(took)
	if m.cfg.Timing.Beside > 0 {
		copy(m.reductions[1:], m.reductions[:])
		m.reductions[0] = took
	}
}

// spread is how far apart the contributors of the open slot finished, of those who could begin together.
func (m *Machine) spread() time.Duration {
	at := m.offerTimes(slices.DeleteFunc(m.offers(), func(o slot.Offer) bool { return m.cameDuring(o.Peer) }))
	if len(at) < 2 {
		return never
	}
	return at[len(at)-1] - at[0]
}

// noteSpread remembers the spread of a slot that is over.
func (m *Machine) noteSpread(spread time.Duration) {
	if spread != never {
		copy(m.spreads[1:], m.spreads[:])
		m.spreads[0] = spread
	}
}
