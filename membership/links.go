package membership

import "github.com/p2pdiloco/p2pdiloco/internal/slot"

// links is what is known of the ways between the peers of a group: what each says in ALIVE, and what this peer knows itself. Peers
// that have no connection may never have tried: there is no way only where one has tried in vain.
func (m *Machine) links(offers []slot.Offer) slot.Links {
	links := slot.Links{
		Ways: make([][]slot.Link, len(offers)), Uplinks: make([]slot.Link, len(offers)), NoRing: m.chain.openSlot() < m.ringsFrom,
	}
	for i, o := range offers {
		links.Ways[i] = make([]slot.Link, len(offers))
		ways, uplink := m.linksOf(o.Peer)
		for j, to := range offers {
			links.Ways[i][j] = ways[to.Peer]
		}
		links.Uplinks[i] = uplink
	}
	return links
}

// linksOf is what a member says of its ways to others, and of its uplink.
func (m *Machine) linksOf(p slot.PeerID) (ways map[slot.PeerID]slot.Link, uplink slot.Link) {
	ways = map[slot.PeerID]slot.Link{}
	if p == m.cfg.Self {
		for to := range m.apart {
			ways[to] = slot.LinkNone
		}
		for to := range m.presence.connected {
			ways[to] = m.linkTo(to)
		}
		return ways, slot.LinkOf(m.speeds.Uplink)
	}
	i := slot.Find(m.chain.electorate(), p)
	if i < 0 {
		return ways, slot.LinkUnknown
	}
	a := m.presence.known[ofMember(m.chain.electorate()[i])]
	if a == nil || a.alive == nil {
		return ways, slot.LinkUnknown
	}
	for _, to := range a.alive.Apart {
		ways[to] = slot.LinkNone
	}
	for k, to := range a.alive.Reaches {
		l := linkAt(a.alive.Links, k)
		ways[to] = l.Way(l.Relayed())
	}
	return ways, a.alive.Uplink
}

// linkTo is this peer's word on its way to one that it is connected to.
func (m *Machine) linkTo(p slot.PeerID) slot.Link {
	return slot.LinkOf(m.speeds.Speeds[p]).Way(m.presence.relayed[p])
}

// part notes a peer that failed this one in a reduction, unless there is a connection.
func (m *Machine) part(r ReportLost) {
	if r.Reason != LostConnection || m.presence.connected[r.Peer] || r.Peer == m.cfg.Self {
		return
	}
	if m.apart == nil {
		m.apart = map[slot.PeerID]bool{}
	}
	m.apart[r.Peer] = true
	for p := range m.apart {
		if slot.Find(m.chain.electorate(), p) < 0 {
			delete(m.apart, p)
		}
	}
}

// parted lists the members that this one has tried in vain to reach, sorted.
func (m *Machine) parted() (ps []slot.PeerID) {
	for _, e := range m.chain.electorate() {
		if m.apart[e.Peer] {
			ps = append(ps, e.Peer)
		}
	}
	return ps
}
