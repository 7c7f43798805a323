package membership

import (
	"testing"

	"github.com/p2pdiloco/p2pdiloco/membership/chain"
)

// The chain's pace follows from its records alone, on every peer and through every restart; a
// change of the tip changes it.
func TestTheChainsPace(t *testing.T) {
	rules := labRules()
	rules.Pace = chain.PaceRules{InnerSteps: 100, TrimPermille: 200}
	l := newLab(t, rules, labTiming)
	l.stepTime = 7 // everybody's step time
	l.adds("ABC")
	l.awaits(t, "20 slots", func() bool { return l.peers[0].m.View().AppliedSlot > 20 })
	m := l.peers[0].m
	tip := m.chain.Tip().Slot
	for base := tip - 2; base <= tip+1; base++ {
		for _, e := range m.chain.Electorate() {
			if got := m.View().Pace.Steps(e.Peer, base); got != 100 {
				t.Errorf("%s from base %d: %d steps, want 100", e.Peer, base, got)
			}
		}
	}
	if o, ok := m.View().Pace.Newest(labID("A")); !ok || o.Slot < tip-1 || o.StepTime != 7 {
		t.Errorf("A's newest contribution is %+v", o)
	}
}
