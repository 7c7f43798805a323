package allreduce

import (
	"fmt"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Time without a write does not count, two writes at once count once for all together, and too
// little says nothing.
func TestRates(t *testing.T) {
	now := time.Unix(0, 0)
	e := &Engine{meter: newMeter()}
	e.meter.now = func() time.Time { return now }
	a, b := e.meter.to("a"), e.meter.to("b")
	step := func(d time.Duration) { now = now.Add(d) }
	endA := a()
	step(time.Second / 2)
	endB := b()
	step(time.Second / 2)
	endA(4_000_000)
	step(time.Second / 2)
	endB(8_000_000)
	step(time.Hour)
	up, to := e.Rates(nil)
	if up != 8000 || to["b"] != 8000 || len(to) != 1 {
		t.Errorf("uplink %d, to %v: want 8000, and b alone, as a was sent less than a sample needs", up, to)
	}
	endA = a()
	step(time.Second)
	endA(4_000_000)
	endB = b()
	step(time.Second)
	endB(16_000_000)
	if up, to = e.Rates(nil); up != 12000 || to["a"] != 4000 || to["b"] != 12000 {
		t.Errorf("uplink %d, to %v", up, to)
	}
	for i := range 2 * maxRated {
		e.meter.to(slot.PeerID(fmt.Sprint(i)))
	}
	if n := len(e.meter.mu.peers); n > maxRated {
		t.Errorf("%d peers are remembered", n)
	}
}

// What was measured on another way than the one that leads to a peer now says nothing; what was
// measured on this one stays.
func TestRatesOfOtherWays(t *testing.T) {
	now := time.Unix(0, 0)
	e := &Engine{meter: newMeter()}
	e.meter.now = func() time.Time { return now }
	send := func(p slot.PeerID, took time.Duration) {
		end := e.meter.to(p)()
		now = now.Add(took)
		end(8_000_000)
	}
	for _, c := range []struct {
		relayed  bool // the way to a; that to b is direct
		to       time.Duration
		up, a, b uint32 // before that
	}{
		{relayed: true, to: 8 * time.Second},
		{relayed: true, to: 8 * time.Second, up: 8000, a: 1000, b: 8000},
		{relayed: false, to: time.Second, up: 8000, b: 8000},
		{relayed: false, to: time.Second, up: 8000, a: 8000, b: 8000},
		{relayed: true, to: 8 * time.Second, up: 8000, b: 8000},
		{relayed: true, to: 8 * time.Second, up: 8000, a: 1000, b: 8000},
	} {
		up, to := e.Rates(map[slot.PeerID]bool{"a": c.relayed, "b": false})
		if up != c.up || to["a"] != c.a || to["b"] != c.b {
			t.Errorf("%+v: uplink %d, to %v", c, up, to)
		}
		send("a", c.to)
		send("b", time.Second)
	}
	if all := e.meter.mu.all.average; all > 2_000_000 {
		t.Errorf("the uplink by itself is still that of the direct way: %.0f", all)
	}
}
