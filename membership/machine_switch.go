package membership

import (
	"fmt"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// switchTo makes the gathered chain the own one. Votes and signatures on the records that are given
// up still bind (HOLES H7), and each of those records counts as voted for in the ballot that
// certified it: if a later switch leads back below one, it is still decided.
func (m *Machine) switchTo(r *branch, common uint64) {
	given := m.chain
	if !m.giveUp(common) {
		return
	}
	m.pledges.setAside()
	for _, c := range r.chain.Above(common) {
		m.clones.checkOwnSignatures(c, r.chain, m.pledges.find(c.Record), m.own.offerSeq)
		m.persist(wire.EntryCommit(c))
		m.pledges.pass(c.Record)
	}
	m.moveTo(r.chain)
	m.reportSwitch(r, given, common)
	if common < given.Height() {
		m.switches++
		m.own.mine = nil
	}
	m.goOnWith(r, given, common)
}

// giveUp notes that the chain is left above a height. It fails where that cannot be read.
func (m *Machine) giveUp(height uint64) bool {
	var given []wire.Commit
	for h := height + 1; h <= m.chain.Height(); h++ {
		c, err := m.chain.Read(h)
		if err != nil {
			return false
		}
		given = append(given, c)
	}
	if len(given) > 0 {
		m.persist(wire.EntryRewind{Height: height})
	}
	for _, c := range given {
		if c.Record.Kind != slot.Fork { // which decides nothing among its siblings
			m.persist(wire.EntryDecided(c))
			m.pledges.keepDecided(c)
		}
	}
	m.saved = min(m.saved, height)
	return true
}

// moveTo makes a chain the own one, and forgets what was noted about the one before.
func (m *Machine) moveTo(c *chain.Chain) {
	m.chain, m.path = c, nil
	m.competing.forgetJudged()
	m.motions.forget()
	m.turnout.restart()
}

// goOnWith opens the height above the chain that has just become the own one.
func (m *Machine) goOnWith(r *branch, given *chain.Chain, common uint64) {
	m.catchup.early, m.catchup.need, m.exit.ending, m.founder.fork = nil, need{at: never}, ending{}, nil
	if s := &m.model.state; !s.known || s.diverged || s.applying > 0 || s.syncing || s.height > common {
		m.model.state = modelState{retryAt: never}
	}
	m.presence.meetMembers(given.Members())
	m.openNext()
	m.model.compareState()
	m.own.dropIfDiverged()
	m.announcer.aliveAt = never
	m.catchup.ask(r.from)
}

func (m *Machine) reportSwitch(r *branch, given *chain.Chain, common uint64) {
	e := Event{
		Height: r.chain.Height(), Slot: r.chain.Tip().Slot, Members: peersOf(r.chain.Members()),
		Root: r.chain.Hash(common + 1), Record: r.chain.Tip().Hash(), Peer: r.from,
	}
	switch {
	case common < given.Height():
		e.Kind = EventSwitched
		before := given.SlotAt(common)
		e.Detail = fmt.Sprintf("%d records above height %d, with %d slots after slot %d, are given up for the better "+
			"branch of %s, which has %d slots there", given.Height()-common, common, given.Tip().Slot-before, before,
			r.from.Short(), r.chain.Tip().Slot-before)
		m.event(e)
	case common > 0 && r.chain.At(common+1).Kind == slot.Fork: // not the founding
		e.Kind, e.Detail = EventForked, "followed: "+m.news.forkText(r.chain.At(common+1))
		m.event(e)
	}
	_, m.news.provisional = m.chain.Provisional()
	for _, c := range r.chain.Above(common) {
		m.reportRecord(EventCertified, c.Record, c.Certificate.Ballot)
	}
	m.news.reportMembers(e, given.Members(), r.chain.Members())
}

// takeBack takes a record back that was certified after the tip, on a branch that this peer left
// and has come back to. It can vote for no other one here, and nobody else may know the record any
// more.
func (m *Machine) takeBack() {
	for {
		d := m.pledges.open.Decided
		if d == nil || !m.chain.Pinned() && d.Record.Hash() != m.chain.Pin() {
			return
		}
		c, before := wire.Commit(*d), m.chain.Members()
		if err := m.chain.Extend(c, m.cfg.Verify); err != nil {
			return // it does not follow by the rules of this release
		}
		m.adopted(c, before)
	}
}
