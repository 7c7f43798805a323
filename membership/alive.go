package membership

import "github.com/p2pdiloco/p2pdiloco/internal/slot"

// announce gossips ALIVE and, until a record answers, JOIN or LEAVE.
func (m *Machine) announce() {
	if m.now-m.aliveAt >= m.cfg.Timing.Alive {
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
	m.aliveAt = m.now
	if m.left {
		return
	}
	tip, s := m.chain.tip(), m.state
	a := Alive{
		Founding: m.chain.founding(), Height: tip.Height, Tip: m.chain.tipHash(), Work: tip.Work,
		Synced: s.known && !s.diverged, Contributes: m.contributes && !s.diverged, Steps: m.steps, Reaches: m.reaches(),
	}
	if a.Synced {
		a.Applied, a.Slot = s.height, s.slot
	}
	m.gossip(a)
}

// onAlive notes where a peer stands, and follows it where it is further.
func (m *Machine) onAlive(msg Message, a Alive) error {
	if len(a.Reaches) > slot.MaxMembers || a.Applied > a.Height || (a.Height > 0) == a.Founding.IsZero() {
		return invalid("an ALIVE that contradicts itself")
	}
	m.presence.known[who{msg.From, msg.Incarnation}].alive = &a
	switch own := m.chain.founding(); {
	case a.Height == 0:
	case a.Founding == own || own.IsZero():
		if a.Height > m.chain.height() {
			m.ask(msg.From)
		}
	default:
		m.meetRival(msg.From, a)
	}
	return nil
}

// onJoin notes that a peer wants in. The leader lists it once it says HAVE.
func (m *Machine) onJoin(msg Message, _ Join) error {
	if err := m.from(msg); err == nil {
		return ErrStale
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
	return !m.leaving && !m.elector() && !m.chain.ended() && m.chain.height() > 0 &&
		m.state.known && !m.state.diverged && m.state.height+2 >= m.chain.height()
}

// joining says whether a peer that is no member asked lately to be one.
func (m *Machine) joining(a *acquaintance) bool {
	_, listed := findMember(m.chain.electorate(), a.peer, a.inc)
	return !listed && m.now-a.joinHeard <= m.cfg.Timing.Lost
}

// atOurTip says whether a peer's newest ALIVE shows the state after our tip.
func (m *Machine) atOurTip(a *acquaintance) bool {
	return a.alive != nil && a.alive.Synced && a.alive.Tip == m.chain.tipHash() && a.alive.Applied == a.alive.Height
}
