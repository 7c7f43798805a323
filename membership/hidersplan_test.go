package membership

import (
	"slices"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// A contributor that hides is left out of plans by every elector that saw it hide. If it offers
// long before the others, each of these has handed its offer to the leader, and without a rule each
// refuses the leader's plan for leaving it out: every slot costs a term, terms grow, and leaders
// are dropped as mute. A leader that alone saw it hide plans with it, since the others ask for it.
func TestAHiderCostsNoTerms(t *testing.T) {
	t.Parallel()
	for name, from := range map[string]string{"it hides from all": "*", "it hides from one leader": "A"} {
		t.Run(name, func(t *testing.T) {
			l := auditedLab(t, "ABCD")
			bad, honest := l.add("E"), l.peer("B")
			l.connect()
			l.goesOn(t, 3)
			bad.auditor.hides = from
			for _, p := range l.peers[:4] {
				p.slowness = 4 * labTiming.Retry
			}
			first := honest.m.chain.Height() + 2
			end := honest.m.chain.Tip().Slot + 60
			l.within(t, 20*time.Minute, "60 slots are decided", func() bool { return honest.m.chain.Tip().Slot >= end })
			lost := 0
			for _, k := range honest.m.chain.Commits()[first:] {
				order := slot.LeaderOrder(l.rules.Run, k.Record.Height, honest.m.chain.At(k.Record.Height-1).Electors())
				lost += btoi(k.Certificate.Ballot >= slot.Tries && order[0].Peer != bad.id)
			}
			if lost > 6 {
				t.Errorf("honest leaders lost their term in %d of 60 slots", lost)
			}
			if members := peersOf(honest.m.chain.Electorate()); len(members) < 4 ||
				slices.ContainsFunc(l.peers[:4], func(p *labPeer) bool { return !slices.Contains(members, p.id) }) {
				t.Errorf("electors are %s", labNames(members))
			}
			if u := honest.m.history.usualStep(); u > 2*time.Second {
				t.Errorf("a step usually takes %v", u)
			}
			l.onlyEvicted(t)
		})
	}
}
