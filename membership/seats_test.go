package membership

import (
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// In trust byzantine evidence evicts a key for good: its next life is not listed, and the run goes
// on while it asks.
func TestTheEvictedStayOut(t *testing.T) {
	l := forkingLab(t, 4, 0)
	a, liar := l.peers[0], l.peers[3]
	next := a.m.chain.Next()
	for root := range byte(2) {
		_ = a.step(labSigned(liar, wire.Vote{Vote: slot.Vote{Ref: next, Hash: slot.Root{root}}}))
	}
	out := func() bool { return slot.Find(a.m.chain.Members(), liar.id) < 0 }
	l.within(t, 5*time.Second, "it is dropped", out)
	for _, p := range a.m.chain.Tip().Evicted {
		if p != liar.id {
			t.Errorf("%s is evicted", labName(p))
		}
	}
	if len(a.m.chain.Tip().Evicted) != 1 || len(a.m.chain.Tip().Absent) != 0 {
		t.Errorf("%d are evicted, %d absent", len(a.m.chain.Tip().Evicted), len(a.m.chain.Tip().Absent))
	}
	liar.crash()
	liar.format()
	liar.start()
	l.connect()
	before := a.m.chain.Tip().Slot
	l.awaits(t, "20 slots more", func() bool { return a.m.chain.Tip().Slot >= before+20 })
	if !out() || !strings.Contains(liar.m.View().Reason, "evicted this peer for good") {
		t.Errorf("listed: %v; it says: %s", !out(), liar.m.View().Reason)
	}
}
