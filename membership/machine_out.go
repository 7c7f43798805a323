package membership

import (
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

func (m *Machine) persist(e Entry) { m.out.Persist = append(m.out.Persist, e) }

func (m *Machine) work(w Work) { m.out.Work = append(m.out.Work, w) }

func (m *Machine) event(e Event) { m.out.Events = append(m.out.Events, e) }

// send goes directly to the peers named, who may include this one.
func (m *Machine) send(body Body, to ...slot.PeerID) {
	if len(to) > 0 {
		m.out.Send = append(m.out.Send, Envelope{To: to, Body: body})
	}
}

// gossip goes to everybody, and directly to the peers named.
func (m *Machine) gossip(body Body, to ...slot.PeerID) {
	m.out.Send = append(m.out.Send, Envelope{To: to, Gossip: true, Body: body})
}

func peersOf(members []slot.Member) []slot.PeerID {
	ps := make([]slot.PeerID, len(members))
	for i, m := range members {
		ps[i] = m.Peer
	}
	return ps
}

func offerers(offers []slot.Offer) []slot.PeerID {
	ps := make([]slot.PeerID, len(offers))
	for i, o := range offers {
		ps[i] = o.Peer
	}
	return ps
}

// union lists the peers of all lists once, sorted.
func union(lists ...[]slot.PeerID) []slot.PeerID {
	all := slices.Concat(lists...)
	slices.Sort(all)
	return slices.Compact(all)
}

// without is the list less one peer.
func without(list []slot.PeerID, p slot.PeerID) []slot.PeerID {
	return slices.DeleteFunc(slices.Clone(list), func(q slot.PeerID) bool { return p == q })
}
