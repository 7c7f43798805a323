package chain

import (
	"maps"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Where anybody may come, a name costs nothing: a flood of them, each twice as many as there are
// members, would outnumber those that train within one slot. So leaders list newcomers at the pace
// at which members show that they train. It is a policy of leaders, which all follow alike since it
// is a function of the chain, and no rule of validity: what a quorum decided otherwise is decided.
const (
	// newcomers that may be listed before the first step, when no peer can have contributed: at
	// least this many, or firstFactor times Rules.StartPeers
	firstNewcomers = 16
	firstFactor    = 4
	fewNewcomers   = 2       // in a slot, at least
	maxBackOff     = 6       // doublings
	backOffMemory  = 64      // slots after its end in which another doubles it
	maxLeavers     = 1 << 12 // peers whose comings and goings are kept in mind
)

// Newcomers keeps which peers of one chain have contributed, and which only came and went.
type Newcomers struct {
	proven   map[slot.PeerID]struct{} // contributed to a step: they come and go as they like
	leavers  map[slot.PeerID]backOff  // were members, and went without
	quota    int                      // newcomers of the open slot
	admitted int                      // of these, listed already
}

// backOff says how long a peer must stay away that came and went without contributing.
type backOff struct {
	times int
	until uint64 // it is not listed before this slot is done
}

func newNewcomers(rules Rules) *Newcomers {
	return &Newcomers{
		proven: map[slot.PeerID]struct{}{}, leavers: map[slot.PeerID]backOff{},
		quota: max(firstNewcomers, firstFactor*rules.StartPeers),
	}
}

func (c *Newcomers) clone() *Newcomers {
	b := *c
	b.proven, b.leavers = maps.Clone(c.proven), maps.Clone(c.leavers)
	return &b
}

// Quota returns how many newcomers that never contributed the open slot may list.
func (c *Newcomers) Quota() int { return c.quota }

// Room returns how many of them it may still list.
func (c *Newcomers) Room() int { return max(0, c.quota-c.admitted) }

// BackOff says how often a peer came and went without contributing, and the slot that must be done
// before it is listed again.
func (c *Newcomers) BackOff(p slot.PeerID) (times int, until uint64) {
	return c.leavers[p].times, c.leavers[p].until
}

// follow takes in the chain's next record, which came after one with the members before.
func (c *Newcomers) follow(r slot.Record, before []slot.Member) {
	for _, o := range r.Contributions {
		c.proven[o.Peer] = struct{}{}
		delete(c.leavers, o.Peer)
	}
	c.admitted += c.eachUnproven(r.Members, before, func(slot.PeerID) {})
	if r.Slot > 0 { // no peer could contribute before
		c.eachUnproven(before, r.Members, func(p slot.PeerID) { c.left(p, r.Slot) })
	}
	if r.Kind == slot.Step {
		c.nextSlot(r)
	}
}

// eachUnproven visits the peers that are in one list and not in the other, and never contributed.
// Both lists are sorted by peer.
func (c *Newcomers) eachUnproven(in, notIn []slot.Member, visit func(slot.PeerID)) (n int) {
	for _, e := range in {
		for len(notIn) > 0 && notIn[0].Peer < e.Peer {
			notIn = notIn[1:]
		}
		if len(notIn) > 0 && notIn[0].Peer == e.Peer || c.Contributed(e.Peer) {
			continue
		}
		visit(e.Peer)
		n++
	}
	return n
}

// left notes that a peer went without contributing. The first time costs it nothing: people start a
// program, stop it and start it again.
func (c *Newcomers) left(p slot.PeerID, at uint64) {
	v, known := c.leavers[p]
	if !known && len(c.leavers) >= maxLeavers {
		return
	}
	v.until = at + 1<<min(v.times, maxBackOff) - 1
	v.times++
	c.leavers[p] = v
}

// nextSlot opens the slot after a step: each member that contributes vouches for one newcomer.
func (c *Newcomers) nextSlot(r slot.Record) {
	working := CountMembers(r.Members, func(e slot.Member) bool { return c.Contributed(e.Peer) })
	c.quota, c.admitted = max(fewNewcomers, working), 0
	for p, v := range c.leavers {
		if v.until+backOffMemory < r.Slot {
			delete(c.leavers, p)
		}
	}
}

// Contributed says whether a record has listed a contribution of a peer.
func (c *Newcomers) Contributed(p slot.PeerID) bool {
	_, ok := c.proven[p]
	return ok
}

// BacksOff says whether a peer came and went too often to be listed again in the slot after done.
func (c *Newcomers) BacksOff(p slot.PeerID, done uint64) bool { return done < c.leavers[p].until }
