package membership

import (
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// ending is this peer's way out of a run that is over.
type ending struct {
	over  bool          // the last slot is applied here
	since time.Duration // when it was
	done  bool
}

// finish says when this peer may go: it was dropped after it asked to leave, or the last slot is applied and everybody whom it
// could serve has it too, or waited for long enough.
func (m *Machine) finish() {
	if m.leaving && !m.left && (!m.elector() || m.alone()) {
		m.left = true
		if m.elector() {
			m.event(Event{Kind: EventLeft, Height: m.chain.height(), Slot: m.chain.tip().Slot, Peer: m.cfg.Self, Detail: "left"})
		}
	}
	e := &m.ending
	if !m.chain.ended() || !m.state.known || m.state.diverged || m.state.slot < m.cfg.Rules.LastSlot {
		return
	}
	if !e.over {
		e.over, e.since = true, m.now
	}
	if !e.done && (m.chain.closed() && m.atTip() && m.allApplied() || m.now-e.since >= m.cfg.Timing.Linger) {
		e.done = true
		m.announceAlive()
		m.event(Event{Kind: EventDone, Height: m.chain.height(), Slot: m.chain.tip().Slot, Root: m.state.root})
	}
}

// alone: there is no record that could drop the last member, and nobody to take its place.
func (m *Machine) alone() bool {
	return m.mine == nil && len(m.newcomers()) == 0 && !slices.ContainsFunc(m.chain.electorate(), func(e slot.Member) bool {
		a := m.presence.known[ofMember(e)]
		return ofMember(e) != m.presence.self && m.around(ofMember(e)) && (a == nil || !a.leaving)
	})
}

// allApplied says whether every member's ALIVE shows the closing record applied.
func (m *Machine) allApplied() bool {
	return !slices.ContainsFunc(m.chain.electorate(), func(e slot.Member) bool {
		a := m.presence.known[ofMember(e)]
		return ofMember(e) != m.presence.self && (a == nil || a.alive == nil || !a.alive.Synced || a.alive.Applied < m.chain.height())
	})
}
