package membership

import (
	"slices"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// Strangers end their streams one after the other, each to two owners of four, and the owners run
// out of ranges. No report convicts the strangers. Without the rule the owners are left out, or the
// slot begins anew with everybody, each time. Now the leader goes on in its term with all but the
// strangers. One owner alone moves nobody, nor does what an owner says of another one.
func TestContributorsThatUseUpTheRanges(t *testing.T) {
	l := auditedLab(t, "ABCD")
	l.adds("EF")
	l.goesOn(t, 6)
	for _, p := range l.peers {
		p.stuck = true // the reduction lasts
	}
	leader := l.leading(t, func(_ *labPeer, lead *leading) bool {
		return lead.plan != nil && len(lead.plan.Offers) > 4 && lead.ref.Ballot == 0
	})
	first, height := *leader.m.open.lead.plan, leader.m.open.ref.Height
	lost := func(by *labPeer, of slot.PeerID, reason wire.LostReason) error {
		lead := leader.m.open.lead
		return leader.step(labSigned(by, wire.Lost{Ref: lead.ref, Group: lead.group, Peer: of, Reason: reason}))
	}
	var strangers []slot.PeerID
	for _, o := range first.Offers {
		if slot.Find(leader.m.chain.Electorate(), o.Peer) < 0 {
			strangers = append(strangers, o.Peer)
		}
	}
	electors := l.peers[:4]
	for i, s := range strangers {
		for _, by := range []*labPeer{electors[i%4], electors[(i+1)%4]} {
			if by.id != s {
				_ = lost(by, s, wire.LostConnection)
			}
		}
	}
	b, c := l.aside(leader, 1), l.aside(leader, 2)
	if err := lost(b, c.id, wire.LostRanges); err == nil {
		t.Error("an owner speaks for another one")
	}
	if p := leader.m.open.lead.plan; p == nil || p.Group() != first.Group() || p.Gone.Count() > 0 {
		t.Fatalf("the reports alone move the leader: %v", p)
	}
	_ = lost(b, b.id, wire.LostRanges)
	if p := leader.m.open.lead.plan; p == nil || !hasOffer(p.Offers, strangers[0]) {
		t.Fatal("one owner has the strangers left out")
	}
	if p := leader.m.open.lead.plan; p.Group() != first.Group() || p.Gone.Count() > 0 {
		t.Fatal("an owner that ran out is left out before others may say the same")
	}
	_ = lost(c, c.id, wire.LostRanges)
	p := leader.m.open.lead.plan
	if p == nil || p.Group() == first.Group() {
		t.Fatalf("no new group: %v", p)
	}
	if names := labNames(offerers(p.Offers)); !strings.HasPrefix(names, "ABCD") || p.Gone.Count() > 0 ||
		slices.ContainsFunc(strangers, func(s slot.PeerID) bool { return p.Place(s) >= 0 }) {
		t.Errorf("the new group is %s, %d of them gone", names, p.Gone.Count())
	}
	for _, p := range l.peers {
		p.stuck = false
	}
	l.awaits(t, "a step", func() bool { return leader.m.chain.Height() >= height })
	if k := leader.m.chain.Commit(height); k.Certificate.Ballot >= slot.Tries || k.Record.Kind != slot.Step {
		t.Errorf("a %s is decided in ballot %d", k.Record.Kind, k.Certificate.Ballot)
	}
	l.goesOn(t, 2)
	l.onlyEvicted(t)
}
