package membership

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// slowFirstStep is a run of four electors whose first step is planned. Bytes come, and nobody
// states anything before goOn.
func slowFirstStep(t *testing.T, termCap time.Duration) *lab {
	rules := labRules()
	rules.Byzantine, rules.StartPeers, rules.TermCap = true, 4, termCap
	l := newLab(t, rules, labTiming)
	for _, n := range "ABCD" {
		p := l.add(string(n))
		p.stuck, p.trickle = true, 1
	}
	l.connect()
	l.awaits(t, "a plan", func() bool { return l.peers[0].m.open.last != nil })
	return l
}

func goOn(peers []*labPeer) {
	for _, p := range peers {
		p.stuck = false
		p.reduce(WorkReduce{Plan: *p.m.open.last, Share: p.m.chain.Share(p.m.open.last.Offers)})
	}
}

// No step was decided yet, so nobody knows how long one takes, and terms are short. An owner on a
// slow link is awaited for half as long as all others took, and then left out.
func TestASlowOwnerOfTheFirstStepIsAwaited(t *testing.T) {
	const others = 7 * time.Second // in the second term, which lasts 8 s
	for more, awaited := range map[time.Duration]bool{3200 * time.Millisecond: true, 4500 * time.Millisecond: false} {
		l := slowFirstStep(t, 0)
		began := l.peers[0].m.open.groupReports.since
		l.rests(others - (l.now - began))
		goOn(l.peers[:3])
		l.rests(more)
		goOn(l.peers[3:])
		l.awaits(t, "the slot closes", func() bool { return l.peers[0].m.View().AppliedSlot > 0 })
		out := slices.ContainsFunc(l.log, func(line string) bool {
			return strings.Contains(line, "failed in the reduction")
		})
		if out == awaited {
			t.Errorf("%v more: left out: %v\n%s", more, out, l.show())
		}
	}
}

// An owner that drips is left out of the first step, too, however old the group is: else the
// leaders, which wait for it, are dropped as mute.
func TestADrippingOwnerOfTheFirstStepIsLeftOut(t *testing.T) {
	const held = 25 * time.Second // more than three terms
	const termCap = 8 * time.Second
	l := slowFirstStep(t, termCap)
	l.rests(held)
	goOn(l.peers[:3])
	began := l.now
	closed := func() bool { return l.peers[0].m.View().AppliedSlot > 0 }
	if !l.run(5*time.Minute, closed) || l.now-began > 2*termCap {
		t.Errorf("it took %v\n%s", l.now-began, l.show())
	}
}

// A leader that was started again does not know how long a step takes. It leads for as long as the
// others let it: it gave up after a term that is too short, and they waited for the rest of theirs.
func TestARestartedLeaderLeadsOn(t *testing.T) {
	l := slowFirstStep(t, 0)
	d := l.peers[0].m.open
	height, leader := d.ref.Height, d.leader(d.ballot).Peer
	for _, p := range l.peers {
		if p.id != leader {
			p.m.history.steps[0] = 20 * time.Second
		}
	}
	l.rests(15 * time.Second)
	goOn(l.peers)
	l.run(time.Minute, func() bool { return l.peers[0].m.View().AppliedSlot > 0 })
	if c, ok := l.peers[0].m.Record(height); !ok || c.Certificate.Ballot >= slot.Tries {
		t.Errorf("the first term did not decide\n%s", l.show())
	}
}
