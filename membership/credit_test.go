package membership

import (
	"fmt"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// A flood of strangers does not push out who contributed before and wants to come back.
func TestWhoContributedKeepsAPlaceAmongStrangers(t *testing.T) {
	l := ofThree(t, 2)
	l.peer("C").crash()
	m := l.peer("A").m
	if !l.run(10*labTiming.Lost, func() bool { return slot.Find(m.chain.electorate(), labID("C")) < 0 }) {
		t.Fatal(l.show())
	}
	back := who{labID("C"), 77}
	say := func(w who) {
		m.heard(Message{From: w.peer, Incarnation: w.inc, Body: Join{}})
		_ = m.onJoin(Message{From: w.peer, Incarnation: w.inc, Body: Join{}}, Join{})
	}
	say(back)
	for i := range 4 * maxStrangers {
		m.now++
		say(who{labID(fmt.Sprintf("stranger%d", i)), 1})
	}
	if m.presence.known[back] == nil {
		t.Fatal("forgotten for strangers")
	}
	if first := m.newcomers()[0]; first.who != back {
		t.Errorf("%s is listed first", first.peer)
	}
	if n := len(m.presence.known); n > maxStrangers+3 {
		t.Errorf("%d peers are remembered", n)
	}
}

// What is kept of those who come and go is bounded, and forgotten in time.
func TestVisitorsAreForgotten(t *testing.T) {
	c := newCredit(Rules{})
	step := func(s uint64, members ...slot.Member) slot.Record {
		return slot.Record{Kind: slot.Step, Slot: s, Members: members}
	}
	a := slot.Member{Peer: "a"}
	for i := range 2 * maxVisitors {
		v := slot.Member{Peer: slot.PeerID(fmt.Sprintf("v%06d", i))}
		c.follow(step(1, a, v), []slot.Member{a})
		c.follow(step(1, a), []slot.Member{a, v})
	}
	if n := len(c.visitors); n != maxVisitors {
		t.Errorf("%d visitors are remembered", n)
	}
	c.follow(step(2+backOffMemory, a), []slot.Member{a})
	if n := len(c.visitors); n != 0 {
		t.Errorf("%d visitors are remembered %d slots later", n, backOffMemory)
	}
}

// The back-off doubles, and ends.
func TestBackOffOfVisitors(t *testing.T) {
	c := newCredit(Rules{})
	var at uint64 = 1
	for i, want := range []uint64{0, 1, 3, 7, 15, 31, 63, 63} {
		c.left("v", at)
		if got := c.visitors["v"].until - at; got != want {
			t.Errorf("visit %d: backs off for %d slots, want %d", i+1, got, want)
		}
		if at = c.visitors["v"].until; c.backsOff("v", at) {
			t.Errorf("visit %d: no end", i+1)
		}
	}
	c.follow(slot.Record{Kind: slot.Step, Slot: at, Contributions: []slot.Offer{{Peer: "v"}}}, nil)
	if c.backsOff("v", 0) || !c.contributed("v") {
		t.Error("a contribution does not end it")
	}
}
