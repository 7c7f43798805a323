package membership

import (
	"fmt"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// BenchmarkFallen weighs what a group of 500 says after eight deaths: the leader does it with every
// message.
func BenchmarkFallen(b *testing.B) {
	l := newLab(b, labRules(), labTiming)
	m := l.add("A").m
	var p slot.Plan
	var members []slot.Member
	id := func(i int) slot.PeerID { return slot.PeerID(fmt.Sprintf("12D3KooWpeer%03d", i)) }
	for i := range 500 {
		p.Offers = append(p.Offers, slot.Offer{Peer: id(i)})
		members = append(members, slot.Member{Peer: id(i)})
	}
	m.chain.Push(wire.Commit{Record: slot.Record{Height: 1, Kind: slot.Members, Members: members}})
	for _, e := range members {
		m.presence.meet(ofMember(e), m.now, members, m.chain.Newcomers())
	}
	m.open.lead = newLeading(m.open.ref, 1, 0)
	var reports []report
	var dead []slot.PeerID
	for i := range 8 {
		dead = append(dead, id(60*i))
		for j := range 500 {
			reports = append(reports, report{id(j), id(60 * i), wire.LostConnection, 0})
		}
	}
	p = withGone(p, dead)
	for b.Loop() {
		if out := m.planner.fallen(p, reports); len(out) > 0 {
			b.Fatal(out)
		}
	}
}
