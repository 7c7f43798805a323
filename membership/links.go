package membership

import "github.com/p2pdiloco/p2pdiloco/internal/slot"

// links is what is known of the ways between the peers of a group: what each says in ALIVE, and what this peer sees itself. Who was not
// heard yet has said nothing.
func (m *Machine) links(offers []slot.Offer) slot.Links {
	links := slot.Links{Ways: make([][]slot.Link, len(offers)), Uplinks: make([]slot.Link, len(offers))}
	for i, o := range offers {
		links.Ways[i] = make([]slot.Link, len(offers))
		ways, uplink := m.linksOf(o.Peer)
		links.Uplinks[i] = uplink
		if ways == nil {
			continue
		}
		for j, to := range offers {
			if link, ok := ways[to.Peer]; ok {
				links.Ways[i][j] = link
			} else {
				links.Ways[i][j] = slot.LinkNone
			}
		}
	}
	return links
}

// linksOf is what a member says of its ways to others, nil if it has said nothing, and of its uplink.
func (m *Machine) linksOf(p slot.PeerID) (ways map[slot.PeerID]slot.Link, uplink slot.Link) {
	ways = map[slot.PeerID]slot.Link{}
	if p == m.cfg.Self {
		for to := range m.presence.connected {
			ways[to] = slot.LinkOf(m.speeds.Speeds[to])
		}
		return ways, slot.LinkOf(m.speeds.Uplink)
	}
	i := slot.Find(m.chain.electorate(), p)
	if i < 0 {
		return nil, slot.LinkUnknown
	}
	a := m.presence.known[ofMember(m.chain.electorate()[i])]
	if a == nil || a.alive == nil {
		return nil, slot.LinkUnknown
	}
	for k, to := range a.alive.Reaches {
		ways[to] = max(slot.LinkDirect, linkAt(a.alive.Links, k))
	}
	return ways, a.alive.Uplink
}
