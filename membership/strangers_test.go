package membership

import (
	"fmt"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// A flood of strangers does not push out a peer that contributed before and wants to come back.
func TestWhoContributedKeepsAPlaceAmongStrangers(t *testing.T) {
	l := ofThree(t, 2)
	l.peer("C").crash()
	m := l.peer("A").m
	if !l.run(10*labTiming.Lost, func() bool { return slot.Find(m.chain.Electorate(), labID("C")) < 0 }) {
		t.Fatal(l.show())
	}
	back := memberKey{labID("C"), 77}
	say := func(w memberKey) {
		m.presence.heard(wire.Message{From: w.peer, Incarnation: w.inc, Body: wire.Join{}})
		_ = m.roster.onJoin(wire.Message{From: w.peer, Incarnation: w.inc, Body: wire.Join{}}, wire.Join{})
	}
	say(back)
	for i := range 4 * maxStrangers {
		m.now++
		say(memberKey{labID(fmt.Sprintf("stranger%d", i)), 1})
	}
	if m.presence.known[back] == nil {
		t.Fatal("forgotten for strangers")
	}
	if first := m.roster.newcomers()[0]; first.memberKey != back {
		t.Errorf("%s is listed first", first.peer)
	}
	if n := len(m.presence.known); n > maxStrangers+3 {
		t.Errorf("%d peers are remembered", n)
	}
}
