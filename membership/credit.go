package membership

import (
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Where anybody may come, a name costs nothing: a flood of them, each twice as many as there are members, would outnumber those who train within
// one slot. So leaders list newcomers at the pace at which members show that they train. It is a policy of leaders, which all follow alike
// since it is a function of the chain, and no rule of validity: what a quorum decided otherwise is decided.
const (
	firstNewcomers = 16 // before the first step nobody can have shown anything: so many at least, or firstFactor times Rules.StartPeers
	firstFactor    = 4
	fewNewcomers   = 2       // in a slot, at least
	maxBackOff     = 6       // doublings
	backOffMemory  = 64      // slots after its end in which another doubles it
	maxVisitors    = 1 << 12 // peers whose comings and goings are kept in mind
)

// credit is what one chain says of who has contributed, and of who only came and went.
type credit struct {
	proven   map[slot.PeerID]struct{} // contributed to a step: they come and go as they like
	visitors map[slot.PeerID]visitor  // were members, and went without
	quota    int                      // newcomers of the open slot
	admitted int                      // of these, listed already
}

// visitor is a peer that came and went without contributing.
type visitor struct {
	times int
	until uint64 // it is not listed before this slot is done
}

func newCredit(rules Rules) *credit {
	return &credit{
		proven: map[slot.PeerID]struct{}{}, visitors: map[slot.PeerID]visitor{}, quota: max(firstNewcomers, firstFactor*rules.StartPeers),
	}
}

// follow goes on by the chain's next record, which came after one with the members before.
func (c *credit) follow(r slot.Record, before []slot.Member) {
	for _, o := range r.Contributions {
		c.proven[o.Peer] = struct{}{}
		delete(c.visitors, o.Peer)
	}
	c.admitted += c.unproven(r.Members, before, func(slot.PeerID) {})
	if r.Slot > 0 { // nobody could contribute before
		c.unproven(before, r.Members, func(p slot.PeerID) { c.left(p, r.Slot) })
	}
	if r.Kind == slot.Step {
		c.nextSlot(r)
	}
}

// unproven visits those who stand in one list, sorted by peer like the other, and not in the other, and never contributed.
func (c *credit) unproven(in, notIn []slot.Member, visit func(slot.PeerID)) (n int) {
	for _, e := range in {
		for len(notIn) > 0 && notIn[0].Peer < e.Peer {
			notIn = notIn[1:]
		}
		if len(notIn) > 0 && notIn[0].Peer == e.Peer || c.contributed(e.Peer) {
			continue
		}
		visit(e.Peer)
		n++
	}
	return n
}

// left notes that a peer went without contributing. The first time costs it nothing: people start a program, stop it and start it again.
func (c *credit) left(p slot.PeerID, at uint64) {
	v, known := c.visitors[p]
	if !known && len(c.visitors) >= maxVisitors {
		return
	}
	v.until = at + 1<<min(v.times, maxBackOff) - 1
	v.times++
	c.visitors[p] = v
}

// nextSlot opens the slot after a step: each member that contributes vouches for one newcomer.
func (c *credit) nextSlot(r slot.Record) {
	working := countMembers(r.Members, func(e slot.Member) bool { return c.contributed(e.Peer) })
	c.quota, c.admitted = max(fewNewcomers, working), 0
	for p, v := range c.visitors {
		if v.until+backOffMemory < r.Slot {
			delete(c.visitors, p)
		}
	}
}

func (c *credit) contributed(p slot.PeerID) bool {
	_, ok := c.proven[p]
	return ok
}

// backsOff says whether a peer came and went too often to be listed again in the slot after done.
func (c *credit) backsOff(p slot.PeerID, done uint64) bool { return done < c.visitors[p].until }

// room is how many peers that never contributed the next record may list. Where too few are left who do contribute for a slot to close, the
// run depends on whoever comes.
func (m *Machine) room() int {
	if !m.cfg.Open || m.needsPeers() {
		return slot.MaxMembers
	}
	return max(0, m.chain.credit.quota-m.chain.credit.admitted)
}

// needsPeers says whether slots end no more without newcomers.
func (m *Machine) needsPeers() bool {
	c := m.chain
	if c.tip().Slot == 0 {
		return len(c.electorate()) < c.rules.StartPeers
	}
	return countMembers(c.electorate(), m.works) < max(1, c.rules.MinPeers)
}

// works says whether a member has contributed, and goes on.
func (m *Machine) works(e slot.Member) bool {
	if !m.chain.credit.contributed(e.Peer) || !m.stays(e) {
		return false
	}
	if ofMember(e) == m.presence.self {
		return m.contributes && !m.leaving && !m.state.diverged
	}
	a := m.presence.known[ofMember(e)]
	return a != nil && !a.leaving && (a.alive == nil || a.alive.Contributes)
}

// admissible lists of those who ask to be members whom the next record may list: in a run that anybody may join, who never contributed waits for
// room, and for the end of its back-off.
func (m *Machine) admissible() []*acquaintance {
	all := m.presence.sorted(m.joining)
	room := m.room()
	if room == slot.MaxMembers {
		return all
	}
	return slices.DeleteFunc(all, func(a *acquaintance) bool { return !m.mayCome(a.peer, room) })
}

func (m *Machine) mayCome(p slot.PeerID, room int) bool {
	c := m.chain.credit
	return c.contributed(p) || room > 0 && !c.backsOff(p, m.chain.tip().Slot)
}
