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
	fewNewcomers   = 2 // in a slot, at least
)

// Newcomers keeps which peers of one chain have contributed.
type Newcomers struct {
	proven   map[slot.PeerID]struct{} // contributed to a step: they come and go as they like
	quota    int                      // newcomers of the open slot
	admitted int                      // of these, listed already
}

func newNewcomers(rules Rules) *Newcomers {
	return &Newcomers{
		proven: map[slot.PeerID]struct{}{}, quota: max(firstNewcomers, firstFactor*rules.StartPeers),
	}
}

func (c *Newcomers) clone() *Newcomers {
	b := *c
	b.proven = maps.Clone(c.proven)
	return &b
}

// Quota returns how many newcomers that never contributed the open slot may list.
func (c *Newcomers) Quota() int { return c.quota }

// Room returns how many of them it may still list.
func (c *Newcomers) Room() int { return max(0, c.quota-c.admitted) }

// follow takes in the chain's next record, which came after one with the members before.
func (c *Newcomers) follow(r slot.Record, before []slot.Member) {
	for _, o := range r.Contributions {
		c.proven[o.Peer] = struct{}{}
	}
	c.admitted += c.unproven(r.Members, before)
	if r.Kind == slot.Step {
		c.nextSlot(r)
	}
}

// unproven counts the peers that are in one list and not in the other, and never contributed. Both
// lists are sorted by peer.
func (c *Newcomers) unproven(in, notIn []slot.Member) (n int) {
	for _, e := range in {
		for len(notIn) > 0 && notIn[0].Peer < e.Peer {
			notIn = notIn[1:]
		}
		if len(notIn) > 0 && notIn[0].Peer == e.Peer || c.Contributed(e.Peer) {
			continue
		}
		n++
	}
	return n
}

// nextSlot opens the slot after a step: each member that contributes vouches for one newcomer.
func (c *Newcomers) nextSlot(r slot.Record) {
	working := CountMembers(r.Members, func(e slot.Member) bool { return c.Contributed(e.Peer) })
	c.quota, c.admitted = max(fewNewcomers, working), 0
}

// Contributed says whether a record has listed a contribution of a peer.
func (c *Newcomers) Contributed(p slot.PeerID) bool {
	_, ok := c.proven[p]
	return ok
}
