package membership

import (
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// An elector that gets no outcome any more, and is heard, cannot lead. Its peers know that from
// itself: they wait for it as for a silent peer, not for all of its term. Without the rule each
// height that it leads costs a term, until it is dropped.
func TestALeaderThatLacksTheStateCostsNoTerm(t *testing.T) {
	l := auditedLab(t, "ABCD")
	bad, a := l.peer("D"), l.peer("A")
	bad.unfed = true
	l.run(10*time.Second, func() bool { return false })
	led := 0
	for i, began := 0, l.now; i < 40 && len(a.m.chain.Electorate()) == 4; i, began = i+1, l.now {
		height := a.m.chain.Height() + 1
		order := slot.LeaderOrder(l.rules.Run, height, a.m.chain.Electorate())
		if !l.run(time.Minute, func() bool { return a.m.chain.Height() >= height }) {
			t.Fatalf("height %d is not decided\n%s", height, l.show())
		}
		if order[0].Peer != bad.id {
			continue
		}
		if led++; l.now-began > labTiming.Lost+time.Second {
			t.Errorf("height %d, which D leads, takes %v", height, l.now-began)
		}
	}
	if led == 0 || bad.m.model.atTip() {
		t.Fatalf("D has led %d heights, and is at the tip: %v", led, bad.m.model.atTip())
	}
	l.onlyEvicted(t)
}
