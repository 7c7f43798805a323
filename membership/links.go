package membership

import (
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// linksOf returns the links to others and the uplink that a member announces.
func (pr *presence) linksOf(p slot.PeerID) (ways map[slot.PeerID]slot.Link, uplink slot.Link) {
	ways = map[slot.PeerID]slot.Link{}
	if p == pr.cfg.Self {
		for to := range pr.apart {
			ways[to] = slot.LinkNone
		}
		for to := range pr.connected {
			ways[to] = pr.linkTo(to)
		}
		return ways, slot.LinkOf(pr.speeds.Uplink)
	}
	i := slot.Find(pr.chain.Members(), p)
	if i < 0 {
		return ways, slot.LinkUnknown
	}
	a := pr.known[ofMember(pr.chain.Members()[i])]
	if a == nil || a.alive == nil {
		return ways, slot.LinkUnknown
	}
	for _, to := range a.alive.Apart {
		ways[to] = slot.LinkNone
	}
	for k, to := range a.alive.Reaches {
		l := a.alive.Links[k]
		ways[to] = l.Way(l.Relayed())
	}
	return ways, a.alive.Uplink
}

// linkTo returns what this peer knows of its link to a connected peer.
func (pr *presence) linkTo(p slot.PeerID) slot.Link {
	return slot.LinkOf(pr.speeds.Speeds[p]).Way(pr.relayed[p])
}

// noteUnreachable notes a peer that failed this one in a reduction, unless there is a connection.
func (pr *presence) noteUnreachable(r ReportLost) {
	if r.Reason != wire.LostConnection || pr.connected[r.Peer] || r.Peer == pr.cfg.Self {
		return
	}
	if pr.apart == nil {
		pr.apart = map[slot.PeerID]bool{}
	}
	pr.apart[r.Peer] = true
	for p := range pr.apart {
		if slot.Find(pr.chain.Members(), p) < 0 {
			delete(pr.apart, p)
		}
	}
}

// unreachable lists the members that this peer has tried in vain to reach, sorted.
func (pr *presence) unreachable() (ps []slot.PeerID) {
	for _, e := range pr.chain.Members() {
		if pr.apart[e.Peer] {
			ps = append(ps, e.Peer)
		}
	}
	return ps
}
