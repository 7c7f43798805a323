package chain

import (
	"fmt"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// What is kept of peers that come and go is bounded, and forgotten in time.
func TestVisitorsAreForgotten(t *testing.T) {
	c := newNewcomers(Rules{})
	step := func(s uint64, members ...slot.Member) slot.Record {
		return slot.Record{Kind: slot.Step, Slot: s, Members: members}
	}
	a := slot.Member{Peer: "a"}
	for i := range 2 * maxLeavers {
		v := slot.Member{Peer: slot.PeerID(fmt.Sprintf("v%06d", i))}
		c.follow(step(1, a, v), []slot.Member{a})
		c.follow(step(1, a), []slot.Member{a, v})
	}
	if n := len(c.leavers); n != maxLeavers {
		t.Errorf("%d visitors are remembered", n)
	}
	c.follow(step(2+backOffMemory, a), []slot.Member{a})
	if n := len(c.leavers); n != 0 {
		t.Errorf("%d visitors are remembered %d slots later", n, backOffMemory)
	}
}

// The back-off doubles, and ends.
func TestBackOffOfVisitors(t *testing.T) {
	c := newNewcomers(Rules{})
	var at uint64 = 1
	for i, want := range []uint64{0, 1, 3, 7, 15, 31, 63, 63} {
		c.left("v", at)
		if got := c.leavers["v"].until - at; got != want {
			t.Errorf("visit %d: backs off for %d slots, want %d", i+1, got, want)
		}
		if at = c.leavers["v"].until; c.BacksOff("v", at) {
			t.Errorf("visit %d: no end", i+1)
		}
	}
	c.follow(slot.Record{Kind: slot.Step, Slot: at, Contributions: []slot.Offer{{Peer: "v"}}}, nil)
	if c.BacksOff("v", 0) || !c.Contributed("v") {
		t.Error("a contribution does not end it")
	}
}
