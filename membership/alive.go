package membership

import "github.com/p2pdiloco/p2pdiloco/internal/slot"

// announce gossips ALIVE and, until a record answers, JOIN or LEAVE.
func (m *Machine) announce() {
	if m.aliveDue() {
		m.announceAlive()
	}
	if m.now-m.askedAt < m.cfg.Timing.Alive {
		return
	}
	switch {
	case m.leaving && m.elector():
		m.gossip(Leave{}, m.cfg.Self)
	case m.wantsIn():
		m.gossip(Join{Contributes: m.contributes})
	default:
		return
	}
	m.askedAt = m.now
}

// announceAlive says where this peer stands. Who has left says nothing: nobody waits for it.
func (m *Machine) announceAlive() {
	m.aliveAt, m.hurry = m.now, false
	if m.left {
		return
	}
	tip, s := m.chain.tip(), m.state
	a := Alive{
		Branch: m.chain.branch, Height: tip.Height, Tip: m.chain.tipHash(), Work: tip.Work,
		Synced: s.known && !s.diverged, Contributes: m.contributes && !s.diverged, Steps: m.steps, Reaches: m.reaches(), Uplink: slot.LinkOf(m.speeds.Uplink), Apart: m.parted(),
	}
	for _, p := range a.Reaches {
		a.Links = append(a.Links, m.linkTo(p))
	}
	if a.Synced {
		a.Applied, a.Slot = s.height, s.slot
	}
	m.gossip(a)
}

// onAlive notes where a peer stands, and follows it where it is further.
func (m *Machine) onAlive(msg Message, a Alive) error {
	if len(a.Reaches) > slot.MaxMembers || len(a.Apart) > slot.MaxMembers || a.Applied > a.Height || (a.Height > 0) == a.Branch.IsZero() {
		return invalid("an ALIVE that contradicts itself")
	}
	by := m.presence.known[who{msg.From, msg.Incarnation}]
	by.alive = &a
	m.noteTwins(by)
	if a.Height == 0 {
		return nil
	}
	ours := m.ours(a)
	if ours && a.Height > m.chain.height() && !m.showsBarren(a) {
		m.askOrAwait(msg.From, a.Height)
	}
	// Taken for ours it may still have parted further back: then asking for what follows the tip is in vain, and nobody asks for it of who
	// is no further.
	if a.Branch != m.chain.branch && m.chain.height() > 0 && (!ours || m.need.times >= askedInVain || a.Height <= m.chain.height()) || !m.chain.pinned {
		m.meetRival(msg.From, a)
	}
	return nil
}

// askedInVain is after how many repeated questions for the record above the tip it is looked for further back.
const askedInVain = 2

// ours says whether the chain that an ALIVE is about is taken up record by record: the own branch; any branch by who has no chain
// yet, and by who comes from a part of the chain that nobody stands on any more, where forks lie ahead.
func (m *Machine) ours(a Alive) bool {
	return m.chain.pinned && (a.Branch == m.chain.branch || m.chain.height() == 0 || !m.memberShows())
}

// onJoin notes that a peer wants in. The leader lists it once it says HAVE.
func (m *Machine) onJoin(msg Message, _ Join) error {
	if err := m.from(msg); err == nil {
		return ErrStale
	}
	if m.unwelcome(who{msg.From, msg.Incarnation}) {
		return ErrSender
	}
	a := m.presence.known[who{msg.From, msg.Incarnation}]
	if m.now-a.joinHeard > m.cfg.Timing.Lost {
		a.joinSince = m.now
	}
	a.joinHeard, a.leaving = m.now, false
	return nil
}

// onLeave notes that a member wants out.
func (m *Machine) onLeave(msg Message) error {
	if err := m.from(msg); err != nil {
		return err
	}
	m.presence.known[who{msg.From, msg.Incarnation}].leaving = true
	return nil
}

// wantsIn: everybody who can follow the run wants to be a member.
func (m *Machine) wantsIn() bool {
	return !m.leaving && !m.elector() && !m.barred(m.cfg.Self) && !m.chain.ended() && m.chain.height() > 0 && m.chain.pinned &&
		m.state.known && !m.state.diverged && m.state.height+2 >= m.chain.height()
}

// joining says whether a peer that is no member asked lately to be one.
func (m *Machine) joining(a *acquaintance) bool {
	if m.now-a.joinHeard > m.cfg.Timing.Lost || m.barred(a.peer) {
		return false
	}
	_, listed := findMember(m.chain.electorate(), a.peer, a.inc)
	return !listed
}

// atOurTip says whether a peer's newest ALIVE shows the state after our tip.
func (m *Machine) atOurTip(a *acquaintance) bool {
	return a.alive != nil && a.alive.Synced && a.alive.Tip == m.chain.tipHash() && a.alive.Applied == a.alive.Height
}
