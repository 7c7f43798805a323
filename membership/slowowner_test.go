package membership

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// No step was decided yet, so nobody knows how long one takes, and terms are short. An owner on a
// slow link is awaited for half as long as all others took, and then left out.
func TestASlowOwnerOfTheFirstStepIsAwaited(t *testing.T) {
	const others = 7 * time.Second // in the second term, which lasts 8 s
	for more, awaited := range map[time.Duration]bool{3200 * time.Millisecond: true, 4500 * time.Millisecond: false} {
		rules := labRules()
		rules.Byzantine, rules.StartPeers = true, 4
		l := newLab(t, rules, labTiming)
		for _, n := range "ABCD" {
			p := l.add(string(n))
			p.stuck, p.trickle = true, 1
		}
		l.connect()
		planned := func() bool { return l.peers[0].m.open.last != nil }
		if !l.run(time.Minute, planned) {
			t.Fatalf("no plan\n%s", l.show())
		}
		goOn := func(p *labPeer) { p.stuck = false; p.reduce(*p.m.open.last) }
		slow := l.peers[3]
		began := l.peers[0].m.open.groupReports.since
		l.run(others-(l.now-began), func() bool { return false })
		for _, p := range l.peers[:3] {
			goOn(p)
		}
		l.run(more, func() bool { return false })
		goOn(slow)
		if !l.run(time.Minute, func() bool { return l.peers[0].m.View().AppliedSlot > 0 }) {
			t.Fatalf("the slot does not close\n%s", l.show())
		}
		out := slices.ContainsFunc(l.log, func(line string) bool {
			return strings.Contains(line, "failed in the reduction")
		})
		if out == awaited {
			t.Errorf("%v more: left out: %v\n%s", more, out, l.show())
		}
	}
}
