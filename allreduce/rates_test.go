package allreduce

import (
	"fmt"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Time without a write does not count, two writes at once count once for all together, and too little says nothing.
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
	up, to := e.Rates()
	if up != 8000 || to["b"] != 8000 || len(to) != 1 {
		t.Errorf("uplink %d, to %v: want 8000, and b alone, as a was sent less than a sample needs", up, to)
	}
	endA = a()
	step(time.Second)
	endA(4_000_000)
	endB = b()
	step(time.Second)
	endB(16_000_000)
	if up, to = e.Rates(); up != 12000 || to["a"] != 4000 || to["b"] != 12000 {
		t.Errorf("uplink %d, to %v", up, to)
	}
	for i := range 2 * maxRated {
		e.meter.to(slot.PeerID(fmt.Sprint(i)))
	}
	if n := len(e.meter.mu.peers); n > maxRated {
		t.Errorf("%d peers are remembered", n)
	}
}
