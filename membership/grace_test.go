package membership

import (
	"math"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// TestGraceBesideInnerSteps: where contributors train on beside a reduction, the window is open
// until it would cost the first of them inner steps, and no offer alone moves that.
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
		{
			"half of the inner steps, as nothing is known of reductions",
			[3]slot.Offer{plain, plain, plain},
			50,
			times{},
			30,
		},
		{"less a reduction, with a quarter to spare", [3]slot.Offer{plain, plain, plain}, 50, times{4, 8, 4, 70}, 40},
		{"the inner steps that are beside it", [3]slot.Offer{long, long, long}, 50, times{8, 8}, 50},
		{"not those of one that says it is slow", [3]slot.Offer{plain, plain, forever}, 50, times{8, 8}, 40},
		{"nor of one that says it is quick", [3]slot.Offer{plain, plain, took(0, 0)}, 50, times{8, 8}, 40},
		{"one that was late for another slot is not the first", [3]slot.Offer{late, plain, plain}, 50, times{8, 8}, 45},
		{
			"never longer than four stragglers",
			[3]slot.Offer{forever, forever, forever},
			math.MaxUint32,
			times{8, 8},
			400,
		},
		{"as ever where they wait", [3]slot.Offer{plain, plain, plain}, 0, times{8, 8}, 22},
		{"as ever where a reduction takes longer than they", [3]slot.Offer{plain, plain, plain}, 50, times{80, 80}, 22},
		{"as ever where all were late", [3]slot.Offer{late, late, late}, 50, times{8, 8}, 22},
	} {
		for i, name := range []string{"B", "C", "D"} {
			c.offers[i].Peer = labID(name)
			m.presence.known[memberKey{labID(name), l.peer(name).inc}].offerAt = time.Duration(10+5*i) * time.Second
		}
		m.cfg.Timing = Timing{MinGrace: 2 * time.Second, GraceFactor: 2, Straggler: 100 * time.Second, Beside: c.beside}
		for i, r := range c.reductions {
			m.history.reductions[i] = r * time.Second
		}
		if got := m.history.graceEnds(c.offers[:], 4); got != c.want*time.Second {
			t.Errorf("%s: ends at %v, not %d s", c.name, got, c.want)
		}
	}
}

// TestReductionsAreTimed: from the plan to the record, of the slots that are behind; not where
// nobody trains beside them.
func TestReductionsAreTimed(t *testing.T) {
	for _, beside := range []uint32{0, 1} {
		timing := labTiming
		timing.Beside = beside
		l := connectedLab(t, labRules(), timing, "ABC")
		l.awaits(t, "the slots that are remembered", func() bool {
			return l.peers[0].m.View().AppliedSlot > recentSlots
		})
		for _, d := range l.peers[0].m.history.reductions {
			if (d > 0) != (beside > 0) || d > time.Second {
				t.Errorf("%d inner steps beside: reductions of %v", beside, l.peers[0].m.history.reductions)
			}
		}
	}
}

// Grace is in proportion to what the slot took, where Timing says so.
func TestGraceInProportion(t *testing.T) {
	l := labOf(t, "ABC")
	m := l.peers[0].m
	m.cfg.Timing = Timing{MinGrace: time.Second, GraceFactor: 3, Straggler: time.Minute, GraceShare: 0.25}
	m.history.spreads[0], m.history.slotAt = time.Hour, m.now
	offers := func(after time.Duration) (os []slot.Offer) {
		for _, e := range m.chain.Electorate()[:2] {
			m.presence.known[ofMember(e)].offerAt = m.history.slotAt + after
			os = append(os, slot.Offer{Peer: e.Peer})
		}
		return os
	}
	for _, c := range []struct{ took, grace time.Duration }{
		{40 * time.Second, 10 * time.Second},
		{time.Second, time.Second},
		{-time.Second, time.Second},
		{time.Hour, 15 * time.Minute},
	} {
		m.cfg.Timing.Straggler = time.Hour
		if got := m.history.graceEnds(offers(c.took), 3) - m.history.slotAt - c.took; got != c.grace {
			t.Errorf("a slot of %v: a grace of %v, want %v", c.took, got, c.grace)
		}
	}
	m.cfg.Timing.GraceShare = 0
	if got := m.history.graceEnds(offers(time.Second), 3) - m.history.slotAt - time.Second; got != time.Hour {
		t.Errorf("without a bound: a grace of %v", got)
	}
}
