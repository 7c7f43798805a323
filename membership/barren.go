package membership

import (
	"fmt"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// barren is the end of a chain whose state died with its holders: who is left knows its certificates, but cannot have its outcomes.
// No quorum of its members is left then (I3), and nobody can fork its tip, for want of the state there. So those who are left go
// back to the newest record whose state one of them holds, and fork that, by the rules of all forks. What they give up stays
// decided (keepDecided), and is not taken back before somebody shows its state, or somebody has gone on from it. A run whose last
// slot is known to be decided is not begun again: others have its model, see missed.
type barren struct {
	above uint64 // records of the chain above this height
	chain *chain // nil: none
}

// has says whether a record was given up because nobody holds what it led to.
func (b barren) has(height uint64, hash slot.Root) bool {
	return b.chain != nil && height > b.above && b.chain.has(height, hash)
}

// strangersFor is for how many forkPauses without a quorum strangers' word counts that they hold a state: by then it was had of them.
const strangersFor = 6

// newestHeld is the height of the newest state of the own chain that this peer, or one that it hears on it, holds.
func (m *Machine) newestHeld() (height uint64, ok bool) {
	if s := m.state; s.known && !s.diverged {
		height, ok = s.height, true
	}
	for _, a := range m.presence.known {
		if a.who == m.presence.self || a.alive == nil || !a.alive.Synced || !m.around(a.who) || !m.along(a) || m.evicted(a.who) {
			continue
		}
		if _, member := findMember(m.chain.electorate(), a.peer, a.inc); !member && m.now-m.fork.lost > strangersFor*m.forkPause() {
			continue
		}
		height, ok = max(height, min(a.alive.Applied, m.chain.height())), true
	}
	return height, ok
}

// leaveBarren goes back to the newest record whose state can be had, once no quorum and no holder of a newer state was heard for as
// long as it takes peers that are no members to fork.
func (m *Machine) leaveBarren() {
	f, s := &m.fork, &m.state
	if !f.without {
		f.barren = never
		return
	}
	height, ok := m.newestHeld()
	if !ok || height == m.chain.height() || height == 0 || m.chain.ended() || m.rival != nil || m.left || m.leaving {
		f.barren = never
		return
	}
	if f.barren == never {
		f.barren = m.now
	}
	waited := m.now-f.lost >= 2*m.forkPause() && m.now-f.barren >= 2*m.forkPause()
	if !m.stalled() || !waited && !f.ordered || s.applying > 0 || s.syncing || !m.mayGiveUp(height) && !f.ordered {
		return
	}
	m.giveUpBarren(height)
}

func (m *Machine) giveUpBarren(height uint64) {
	given, lost, ordered := m.chain, m.fork.lost, m.fork.ordered
	for _, p := range m.appliedBy(height + 1) {
		m.doubt(p, "the state that it says it holds is not to be had of it")
	}
	m.shelve()
	m.persist(EntryRewind{Height: height})
	for _, c := range given.commits[height:] {
		m.keepDecided(c)
	}
	m.chain, m.barren = given.upTo(height), barren{height, given}
	m.early, m.need, m.ending, m.mine = nil, need{at: never}, ending{}, nil
	m.moves++
	m.event(Event{
		Kind: EventSwitched, Height: height, Slot: m.chain.tip().Slot, Members: peersOf(m.chain.electorate()), Peer: m.cfg.Self, Root: m.chain.tipHash(),
		Detail: fmt.Sprintf("%d records above height %d are given up: nobody who is heard holds the state that they led to", given.height()-height, height),
	})
	m.meetMembers(given.electorate())
	m.openDecree()
	m.fork.lost, m.fork.ordered, m.fork.without = lost, ordered, true
	m.aliveAt = never
}

// showsBarren says whether an ALIVE is about nothing more than what was given up, without its state.
func (m *Machine) showsBarren(a Alive) bool {
	return m.barren.has(a.Height, a.Tip) && (!a.Synced || a.Applied <= m.barren.above)
}
