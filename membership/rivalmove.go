package membership

import (
	"bytes"
	"fmt"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// youngSlots bounds what is given up without an operator: a branch of fewer slots, or one that never had a second member.
const youngSlots = 16

// prefers says whether a verified chain is the one to be on. Chains with the pin come first; of those more work, then the lower hash
// of the first record that differs. That is a total order, and a pure function of the two chains (HOLES H28): not the tip's hash,
// which changes with every record, so that two peers could change places for ever.
//
// What goes on from the own tip is no rival but the way on; see mayFollow for the case that it goes on by a fork.
func (m *Machine) prefers(c *chain) bool {
	own, common := m.chain, m.chain.meets(c)
	switch {
	case c.height() == common || !c.pinned:
		return false // never to an ancestor of the own tip
	case !own.pinned:
		return true
	case m.words[place{c.height() + 1, c.tipHash()}].fork != nil:
		return false // never back to a record that this peer forked, until its chain has grown
	case common == own.height() && m.mayFollow(c.at(common+1)):
		return true
	case common == own.height():
		return c.tip().Work > own.tip().Work
	}
	if theirs, ours := c.tip().Work, own.tip().Work; theirs != ours {
		return theirs > ours
	}
	return bytes.Compare(c.hashes[common+1][:], own.hashes[common+1][:]) < 0
}

// mayFollow says whether a certified successor of the own tip may be followed whatever its work is. Regular ones always. A fork:
// by who signed it, and by a member that would fork itself by now. Others, who decide nothing here, follow the tip's members,
// and strangers only where no member shows itself.
func (m *Machine) mayFollow(r slot.Record) bool {
	if r.Kind != slot.Fork || m.chain.height() == 0 {
		return true
	}
	if _, signed := findMember(r.Members, m.cfg.Self, m.cfg.Incarnation); signed {
		return true
	}
	if m.elector() {
		return m.stalled()
	}
	return m.chain.stays(r.Members) > 0 || !m.memberShows()
}

// mayGiveUp says whether the own records above a height may be given up without an operator.
func (m *Machine) mayGiveUp(above uint64) bool {
	c := m.chain
	return c.tip().Slot-c.at(above).Slot < youngSlots || !c.sharedSince(above) || !c.pinned
}

// decideMove moves to the gathered chain, or says once per branch that an operator must choose.
func (m *Machine) decideMove() {
	r, common := m.rival, m.chain.meets(m.rival.chain)
	m.rival = nil
	if m.left {
		return
	}
	if m.mayGiveUp(common) {
		m.moveTo(r, common)
		return
	}
	m.refused = remember(m.refused, r.claim.Branch)
	m.event(Event{
		Kind: EventRefused, Height: r.chain.height(), Slot: r.chain.tip().Slot, Peer: r.from, Root: r.chain.hashes[common+1],
		Detail: fmt.Sprintf("its branch of the run has more work, and the one here is %d slots old since they parted at height %d: too old to be "+
			"given up by itself. To move this peer, start it again with --pin %s; else stop the peers of the other branch",
			m.chain.tip().Slot-m.chain.at(common).Slot, common, r.chain.hashes[common+1]),
	})
}

// moveTo makes the gathered chain the own one. Words said on the records given up stay said (HOLES H7), and each of those records
// counts as voted for in the ballot that certified it: should a move lead back below one, it is still decided.
func (m *Machine) moveTo(r *rival, common uint64) {
	given := m.chain
	m.shelve()
	if common < given.height() {
		m.persist(EntryRewind{Height: common})
		for _, c := range given.commits[common:] {
			m.keepDecided(c)
		}
	}
	for _, c := range r.chain.commits[common:] {
		m.checkOwnWords(c, r.chain.at(c.Record.Height-1).Members)
		m.persist(EntryCommit(c))
	}
	m.chain = r.chain
	m.orders.forget()
	m.tellMove(r, given, common)
	m.early, m.need, m.ending, m.founding.fork = nil, need{at: never}, ending{}, nil
	if common < given.height() {
		m.moves++
		m.mine = nil
	}
	if s := &m.state; !s.known || s.diverged || s.applying > 0 || s.syncing || s.height > common {
		m.state = modelState{retryAt: never}
	}
	m.meetMembers(given.electorate())
	m.openDecree()
	m.compareState()
	m.aliveAt = never
	m.ask(r.from)
}

// keepDecided remembers a certified record as a vote in its ballot. A fork decides nothing among its siblings.
func (m *Machine) keepDecided(c Commit) {
	if c.Record.Kind == slot.Fork {
		return
	}
	at := place{c.Record.Height, c.Record.Prev}
	w := m.words[at]
	w.vote = &EntryVote{c.Certificate.Ref, c.Record}
	m.words[at] = w
}

func (m *Machine) tellMove(r *rival, given *chain, common uint64) {
	e := Event{
		Height: r.chain.height(), Slot: r.chain.tip().Slot, Members: peersOf(r.chain.electorate()), Root: r.chain.hashes[common+1], Peer: r.from,
	}
	switch {
	case common < given.height():
		e.Kind = EventSwitched
		e.Detail = fmt.Sprintf("%d records above height %d are given up for the better branch of %s", given.height()-common, common, r.from.Short())
		m.event(e)
	case r.chain.at(common+1).Kind == slot.Fork:
		e.Kind, e.Detail = EventForked, "followed: "+forkText(r.chain.at(common+1))
		m.event(e)
	}
	for _, c := range r.chain.commits[common:] {
		m.tellRecord(EventCertified, c.Record, c.Certificate.Ballot)
	}
	m.tellMembers(e, given.electorate(), r.chain.electorate())
}

func forkText(r slot.Record) string {
	return fmt.Sprintf("%d peers go on from height %d without a quorum of the members that it lists", len(r.Members), r.Height-1)
}
