package membership

import (
	"cmp"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// maxStrangers bounds how many peers that are no members are remembered: those heard last.
const maxStrangers = 256

// who is a peer in one incarnation: the unit of membership.
type who struct {
	peer slot.PeerID
	inc  slot.Incarnation
}

func ofMember(e slot.Member) who { return who{e.Peer, e.Incarnation} }

// acquaintance is what is known of one peer in one incarnation from its own messages.
type acquaintance struct {
	who
	heard     time.Duration // last message, by whatever path: being reached through others counts
	alive     *Alive        // the newest; nil until heard
	joinSince time.Duration // first JOIN since it was last a member
	joinHeard time.Duration // last JOIN
	silentAt  time.Duration // when a step last waited in vain for its HAVE
	leaving   bool
	offer     *slot.Offer // the one of the highest sequence number
	offerAt   time.Duration
	met       uint64 // height of the chain when it was first heard
	suspected bool   // said to be lost, and not heard since
	reach     reach
}

// presence is who is about. It decides only who acts when and whom a leader lists, never whether a record is valid.
type presence struct {
	self      who
	known     map[who]*acquaintance
	connected map[slot.PeerID]bool
	relayed   map[slot.PeerID]bool // of those connected, through a relay
}

func newPresence(self who) presence {
	return presence{self: self, known: map[who]*acquaintance{}, connected: map[slot.PeerID]bool{}, relayed: map[slot.PeerID]bool{}}
}

// meet finds or makes the entry of a peer. Strangers beyond maxStrangers push out the one heard longest ago,
// of those that never contributed if there is one.
func (p *presence) meet(w who, now time.Duration, members []slot.Member, c *credit) *acquaintance {
	if a := p.known[w]; a != nil {
		return a
	}
	var oldest *acquaintance
	strangers, silentAt := 0, never
	for _, a := range p.known {
		if _, listed := findMember(members, a.peer, a.inc); listed || a.who == p.self {
			continue
		}
		if a.peer == w.peer { // a stranger has one place, whatever it calls itself
			silentAt = max(silentAt, a.silentAt)
			delete(p.known, a.who)
			continue
		}
		strangers++
		if oldest == nil || cmp.Or(compareBools(c.contributed(a.peer), c.contributed(oldest.peer)), cmp.Compare(a.heard, oldest.heard), cmp.Compare(a.peer, oldest.peer), cmp.Compare(a.inc, oldest.inc)) < 0 {
			oldest = a
		}
	}
	if strangers >= maxStrangers {
		delete(p.known, oldest.who)
	}
	a := newAcquaintance(w, now)
	a.silentAt = silentAt
	p.known[w] = a
	return a
}

// meetAll makes the entries of members that have none, in the place of what their peers were as strangers, and returns the members.
func (p *presence) meetAll(members []slot.Member, now time.Duration) []slot.Member {
	made := map[slot.PeerID]*acquaintance{}
	for _, e := range members {
		if w := ofMember(e); p.known[w] == nil {
			made[w.peer] = newAcquaintance(w, now)
			p.known[w] = made[w.peer]
		}
	}
	if len(made) == 0 {
		return members
	}
	for w, stranger := range p.known {
		a := made[w.peer]
		if _, listed := findMember(members, w.peer, w.inc); a == nil || listed || w == p.self {
			continue
		}
		a.silentAt = max(a.silentAt, stranger.silentAt)
		delete(p.known, w)
	}
	return members
}

func newAcquaintance(w who, now time.Duration) *acquaintance {
	return &acquaintance{who: w, heard: now, joinSince: never, joinHeard: never, silentAt: never, offerAt: never}
}

// sorted lists the entries for which in holds, in a fixed order.
func (p *presence) sorted(in func(*acquaintance) bool) []*acquaintance {
	var all []*acquaintance
	for _, a := range p.known {
		if in(a) {
			all = append(all, a)
		}
	}
	slices.SortFunc(all, func(a, b *acquaintance) int {
		return cmp.Or(cmp.Compare(a.peer, b.peer), cmp.Compare(a.inc, b.inc))
	})
	return all
}

// heard notes a sign of life. Only ALIVE and JOIN make a stranger known.
func (m *Machine) heard(msg Message) {
	w := who{msg.From, msg.Incarnation}
	a := m.presence.known[w]
	switch msg.Body.(type) {
	case Alive, Join:
		if a == nil {
			a = m.presence.meet(w, m.now, m.chain.electorate(), m.chain.credit)
			a.met = m.chain.height()
		}
	}
	if a != nil {
		a.heard, a.suspected = m.now, false
	}
}

// around says whether a peer was heard lately, by anybody, and is not known to be gone since. Oneself always is.
func (m *Machine) around(w who) bool {
	a := m.presence.known[w]
	return w == m.presence.self || m.heardLately(w) && !m.gone(a)
}

// heardLately says whether a peer was heard within Timing.Lost. Oneself always is.
func (m *Machine) heardLately(w who) bool {
	a := m.presence.known[w]
	return w == m.presence.self || a != nil && m.now-a.heard <= m.cfg.Timing.Lost
}

// meetMembers makes entries for the tip's members; those who were none before get the full time to be heard.
func (m *Machine) meetMembers(before []slot.Member) {
	members := m.chain.electorate()
	for _, e := range m.presence.meetAll(members, m.now) {
		a := m.presence.known[ofMember(e)]
		if _, old := findMember(before, e.Peer, e.Incarnation); !old {
			a.heard, a.suspected, a.joinSince, a.joinHeard, a.reach = m.now, false, never, never, reach{}
		}
	}
}

// noticeLosses says once of each member that it is not heard any more.
func (m *Machine) noticeLosses() {
	for _, e := range m.chain.electorate() {
		a := m.presence.known[ofMember(e)]
		if a != nil && !a.suspected && !m.around(a.who) {
			a.suspected = true
			detail := "not heard"
			if m.gone(a) {
				detail = "nobody has a connection to it any more"
			}
			m.event(Event{Kind: EventSuspected, Height: m.chain.height(), Slot: m.chain.tip().Slot, Peer: e.Peer, Detail: detail})
		}
	}
}

// watchQuorum says when too few members are heard for anything to be decided, and when that is over.
func (m *Machine) watchQuorum() {
	members := m.chain.electorate()
	quorum := !m.elector() || m.quorumHeard()
	if quorum != m.paused {
		return
	}
	m.paused = !quorum
	e := Event{Kind: EventResumed, Height: m.chain.height(), Slot: m.chain.tip().Slot, Members: peersOf(members)}
	if m.paused {
		e.Kind, e.Detail = EventPaused, "too few members are heard for a quorum; nothing is decided until more come back"
	}
	m.event(e)
}

// quorumHeard says whether the members that are heard could decide the open height.
func (m *Machine) quorumHeard() bool {
	return slot.Quorum(m.chain.electorate(), m.present)
}

// present says whether a member is around, and on this branch. Who is to be removed votes until a record says so: where orders cross, it takes
// such votes to carry them out.
func (m *Machine) present(e slot.Member) bool {
	a := m.presence.known[ofMember(e)]
	return m.around(ofMember(e)) && (a == nil || m.along(a)) && !m.evicted(ofMember(e))
}

// stays says whether the next record lists a member: one that is gone has Timing.Lost to come back, as its process may be
// starting again.
func (m *Machine) stays(e slot.Member) bool { return m.heardLately(ofMember(e)) && m.fits(e) }

// fits says whether a member is on this branch, and nothing was proven or decided against it.
func (m *Machine) fits(e slot.Member) bool {
	a := m.presence.known[ofMember(e)]
	return (a == nil || m.along(a)) && !m.unwelcome(ofMember(e))
}

// reaches is which members have a direct connection to this peer, sorted.
func (m *Machine) reaches() []slot.PeerID {
	var ps []slot.PeerID
	for _, e := range m.chain.electorate() {
		if m.presence.connected[e.Peer] {
			ps = append(ps, e.Peer)
		}
	}
	return ps
}
