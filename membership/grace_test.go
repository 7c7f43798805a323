package membership

import (
	"math"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// TestGraceBesideInnerSteps: where contributors train on beside a reduction, the window is open until it would cost the first of them
// inner steps, and no offer alone moves that.
func TestGraceBesideInnerSteps(t *testing.T) {
	l := labOf(t, "ABCD")
	m := l.peer("A").m
	took := func(steps, stepTime uint32) slot.Offer {
		return slot.Offer{Slot: 9, Base: 8, Steps: steps, StepTime: stepTime}
	}
	plain, long, forever := took(40, 1e6), took(400, 1e6), took(math.MaxUint32, math.MaxUint32)
	late := plain
	late.Base--
	type times = [recentSlots]time.Duration
	for _, c := range []struct {
		name       string
		offers     [3]slot.Offer // at 10, 15 and 20 s
		beside     uint32
		reductions times
		want       time.Duration
	}{
		{"half of the inner steps, as nothing is known of reductions", [3]slot.Offer{plain, plain, plain}, 50, times{}, 30},
		{"less a reduction, with a quarter to spare", [3]slot.Offer{plain, plain, plain}, 50, times{4, 8, 4, 70}, 40},
		{"the inner steps that are beside it", [3]slot.Offer{long, long, long}, 50, times{8, 8}, 50},
		{"not those of one that says it is slow", [3]slot.Offer{plain, plain, forever}, 50, times{8, 8}, 40},
		{"nor of one that says it is quick", [3]slot.Offer{plain, plain, took(0, 0)}, 50, times{8, 8}, 40},
		{"one that was late for another slot is not the first", [3]slot.Offer{late, plain, plain}, 50, times{8, 8}, 45},
		{"never longer than four stragglers", [3]slot.Offer{forever, forever, forever}, math.MaxUint32, times{8, 8}, 400},
		{"as ever where they wait", [3]slot.Offer{plain, plain, plain}, 0, times{8, 8}, 22},
		{"as ever where a reduction takes longer than they", [3]slot.Offer{plain, plain, plain}, 50, times{80, 80}, 22},
		{"as ever where all were late", [3]slot.Offer{late, late, late}, 50, times{8, 8}, 22},
	} {
		for i, name := range []string{"B", "C", "D"} {
			c.offers[i].Peer = labID(name)
			m.presence.known[who{labID(name), l.peer(name).inc}].offerAt = time.Duration(10+5*i) * time.Second
		}
		m.cfg.Timing = Timing{MinGrace: 2 * time.Second, GraceFactor: 2, Straggler: 100 * time.Second, Beside: c.beside}
		for i, r := range c.reductions {
			m.reductions[i] = r * time.Second
		}
		if got := m.graceEnds(c.offers[:], 4); got != c.want*time.Second {
			t.Errorf("%s: ends at %v, not %d s", c.name, got, c.want)
		}
	}
}

// TestReductionsAreTimed: from the plan to the record, of the slots that are behind; not where nobody trains beside them.
func TestReductionsAreTimed(t *testing.T) {
	for _, beside := range []uint32{0, 1} {
		timing := labTiming
		timing.Beside = beside
		l := newLab(t, labRules(), timing)
		for _, n := range "ABC" {
			l.add(string(n))
		}
		l.connect()
		if !l.run(time.Minute, func() bool { return l.peers[0].m.View().AppliedSlot > recentSlots }) {
			t.Fatal(l.show())
		}
		for _, d := range l.peers[0].m.reductions {
			if (d > 0) != (beside > 0) || d > time.Second {
				t.Errorf("%d inner steps beside: reductions of %v", beside, l.peers[0].m.reductions)
			}
		}
	}
}
