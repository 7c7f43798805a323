package chain

import (
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// Of the records that it is given, recent holds the newest steps and those of the open slot, and a
// copy of before stays as it was.
func TestRecentHoldsTheNewest(t *testing.T) {
	member := func(p slot.PeerID) []slot.Member { return []slot.Member{{Peer: p}} }
	v := newRecent(Rules{MaxStaleness: 1})
	if v.window != paceWindow+1+2 {
		t.Fatalf("a window of %d steps", v.window)
	}
	if v.lists("A") || v.usualWeight() != 0 {
		t.Errorf("of no records it holds %+v", v)
	}
	height := uint64(0)
	push := func(kind slot.Kind, members []slot.Member, weight uint64) {
		height++
		r := slot.Record{Height: height, Kind: kind, Members: members}
		if kind == slot.Step {
			r.Contributions = []slot.Offer{{Weight: weight}}
		}
		v.follow(r)
	}
	push(slot.Fork, member("A"), 0)
	push(slot.Members, member("B"), 0)
	if !v.lists("A") || !v.lists("B") || v.lists("C") {
		t.Error("the first slot has other members than the records since the fork list")
	}
	for w := range 2 * v.window {
		if n := len(v.steps); n != min(w, v.window) || n > 0 && v.steps[0].Height != height-uint64(n)+1 {
			t.Fatalf("after %d steps it holds %d", w, n)
		}
		push(slot.Step, member("C"), uint64(w))
	}
	before := v
	push(slot.Members, member("D"), 0)
	push(slot.Access, member("E"), 0)
	for p, want := range map[slot.PeerID]bool{"B": false, "C": true, "D": true, "E": true} {
		if v.lists(p) != want || before.lists(p) != (p == "C") {
			t.Errorf("%s: %v, and before %v", p, v.lists(p), before.lists(p))
		}
	}
	// of the weights 22 to 37 the lower one in the middle
	if last := 2*v.window - 1; v.usualWeight() != uint64(last-weightWindow/2) {
		t.Errorf("the usual weight is %d", v.usualWeight())
	}
	push(slot.Fork, member("D"), 0)
	if v.lists("C") || !v.lists("D") || len(v.steps) != v.window {
		t.Error("a fork does not begin the slot anew, or takes steps away")
	}
}

// Chains that go on from one do not see each other's records.
func TestCopiesOfAChainKeepTheirRecentRecords(t *testing.T) {
	c := New(Rules{}, slot.Root{})
	add := func(c *Chain, p slot.PeerID) {
		c.Push(wire.Commit{Record: slot.Record{
			Height: c.Height() + 1, Kind: slot.Members, Members: []slot.Member{{Peer: p}},
		}})
	}
	for range 3 { // a fourth one has room behind them
		add(c, "A")
	}
	a, b := c.UpTo(3), c.UpTo(3)
	add(a, "B")
	add(b, "C")
	add(c, "D")
	for at, chain := range map[slot.PeerID]*Chain{"B": a, "C": b, "D": c} {
		for _, p := range []slot.PeerID{"B", "C", "D"} {
			if chain.recent.lists(p) != (p == at) {
				t.Errorf("the chain with %s lists %s: %v", at, p, p != at)
			}
		}
	}
}
