package membership

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// ending is this peer's way out of a run that is over.
type ending struct {
	over  bool          // the last slot is applied here
	since time.Duration // when it was
	done  bool
	lacks string        // whom the run ended without
	away  time.Duration // since when nobody is heard that holds the last state, which is not here; 0: not so
	gone  bool          // for so long that nobody is waited for any more
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
	if !m.chain.ended() || !m.holdsEnd() {
		m.missed()
		return
	}
	if !e.over {
		e.over, e.since = true, m.now
	}
	if !e.done && (m.chain.closed() && m.atTip() && m.allApplied() && !m.awaited() || m.lingered()) {
		e.done, e.lacks = true, m.endedWithout()
		m.announceAlive()
		m.event(Event{Kind: EventDone, Height: m.chain.height(), Slot: m.chain.tip().Slot, Root: m.state.root, Detail: e.lacks})
	}
}

// endedWithout tells of a run's end on a branch: a fork went on without members that no record has listed since, and that may have done
// the same. It is empty if nobody is missed.
func (m *Machine) endedWithout() string {
	missed := map[slot.PeerID]uint64{} // since which slot
	for h := uint64(1); h <= m.chain.height(); h++ {
		if before := m.chain.at(h - 1); m.chain.at(h).Kind == slot.Fork {
			for _, e := range before.Members {
				missed[e.Peer] = before.Slot
			}
		}
		for _, e := range m.chain.at(h).Members {
			delete(missed, e.Peer)
		}
	}
	delete(missed, m.cfg.Self)
	if len(missed) == 0 {
		return ""
	}
	return fmt.Sprintf("after slot %d this branch of the run went on without members that never came back (%d): "+
		"if they were only cut off, they may hold another model", slices.Min(slices.Collect(maps.Values(missed))), len(missed))
}

// lingerMost is for how many Timing.Linger a peer waits at most for the end of the chain to be decided, or to come here.
const lingerMost = 4

// lingered says whether others had their time. Who goes takes its vote with it: if peers went one by one while the closing record is
// being decided, nobody would ever have it, and so no certificate of the last state. So they stay while a quorum is heard that can
// decide it, and while somebody is heard who has more of the chain; but not for ever, since both may be said in vain.
func (m *Machine) lingered() bool {
	waited, linger := m.now-m.ending.since, m.cfg.Timing.Linger
	open := !m.chain.closed() && m.quorumHeard() || len(m.ahead()) > 0
	return waited >= linger && !open || waited >= lingerMost*linger
}

// alone: there is no record that could drop the last member, and nobody to take its place.
func (m *Machine) alone() bool {
	return (m.mine == nil || m.chain.lacks()) && len(m.newcomers()) == 0 && !slices.ContainsFunc(m.chain.electorate(), func(e slot.Member) bool {
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

// awaited says whether somebody is heard who may come for the last state: a peer that is on this chain and not at its end, one that has
// no chain yet, or one of a branch that this chain outdoes. They have Linger.
func (m *Machine) awaited() bool {
	return len(m.presence.sorted(func(a *acquaintance) bool {
		if a.who == m.presence.self || a.alive == nil || !m.around(a.who) || m.evicted(a.who) || m.doubts(a.peer) {
			return false
		}
		comes := m.along(a) || a.alive.Work <= m.chain.tip().Work
		return comes && (!a.alive.Synced || a.alive.Applied < m.chain.height())
	})) > 0
}

// holdsEnd says whether the state after the last slot is held.
func (m *Machine) holdsEnd() bool {
	return m.state.known && !m.state.diverged && m.state.slot >= m.cfg.Rules.LastSlot
}

// missed notes that the run is over and its last state can be had of nobody: those who had it have gone their way.
func (m *Machine) missed() {
	e := &m.ending
	holder := func(a *acquaintance) bool {
		return a.who != m.presence.self && m.around(a.who) && a.alive != nil && a.alive.Synced && m.along(a) && a.alive.Slot >= m.cfg.Rules.LastSlot
	}
	switch {
	case !m.chain.ended() || m.rival != nil || len(m.presence.sorted(holder)) > 0:
		e.away, e.gone = 0, false
	case e.away == 0:
		e.away = m.now
	case m.now-e.away >= m.cfg.Timing.Linger+2*m.forkPause() && m.state.applying == 0 && !m.state.syncing: // what runs may yet end well
		e.gone = true
	}
}
