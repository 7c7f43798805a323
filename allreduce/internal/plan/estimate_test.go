package plan

import (
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

func TestEstimate(t *testing.T) {
	const elements, second = 1_024_000, float64(time.Second) // 4.096 MB as float32
	speed := func(kBps uint32) func(slot.Links) {
		return func(l slot.Links) {
			for i := range l.Uplinks {
				l.Uplinks[i] = slot.LinkOf(kBps)
			}
		}
	}
	and := func(fs ...func(slot.Links)) func(slot.Links) {
		return func(l slot.Links) {
			for _, f := range fs {
				f(l)
			}
		}
	}
	for _, c := range []struct {
		name    string
		n       int
		links   func(slot.Links)
		change  func(*Params, *slot.Plan)
		seconds float64
		relayed uint64
	}{
		{name: "nothing measured", n: 4},
		{name: "one alone sends nothing", n: 1, links: speed(1024)},
		{name: "four at 1024 kB/s: 1.5 times the vector", n: 4, links: speed(1024), seconds: 6},
		{name: "two: once", n: 2, links: speed(1024), seconds: 4},
		{name: "the slowest counts", n: 4, links: and(speed(4096),
			func(l slot.Links) { l.Uplinks[2] = slot.LinkOf(1024) }), seconds: 6},
		{
			name: "a slow pair: half the vector", n: 4,
			links: and(speed(4096), func(l slot.Links) { l.Ways[1][2] = slot.LinkOf(512) }), seconds: 4,
		},
		{
			name: "a relayed pair that was measured", n: 4,
			links: and(speed(4096), func(l slot.Links) { relayedPair(l, 1, 2, 512) }), seconds: 4, relayed: 4_096_000,
		},
		{
			name: "one that was not has a member's relay", n: 4, links: func(l slot.Links) { relayedPair(l, 1, 2, 0) },
			seconds: 2.048 / 2.5, relayed: 4_096_000,
		},
		{
			name: "all relayed ways of a peer share it", n: 4,
			links:   func(l slot.Links) { relayedPair(l, 1, 0, 0); relayedPair(l, 1, 2, 0); relayedPair(l, 1, 3, 0) },
			seconds: 6.144 / 2.5, relayed: 12_288_000,
		},
		{
			name: "who is gone sends nothing", n: 4, links: speed(1024), seconds: 16. / 3,
			change: func(p *Params, plan *slot.Plan) {
				plan.Gone = slot.NewBitmap(4)
				plan.Gone.Set(2)
				plan.Pieces = Divide(*p, *plan)
			},
		},
		{
			name: "a ring: 2 (n-1)/n to the next", n: 4, links: speed(1024), seconds: 6,
			change: func(_ *Params, plan *slot.Plan) { plan.Ring = []uint16{0, 2, 1, 3} },
		},
		{
			name: "a ring that passes by a relay", n: 4,
			links: and(speed(1024), func(l slot.Links) { relayedPair(l, 0, 1, 1) }), seconds: 6,
			change: func(_ *Params, plan *slot.Plan) { plan.Ring = []uint16{0, 2, 1, 3} },
		},
		{
			name: "int8: a quarter, and scales", n: 4, links: speed(1024), seconds: 1.52,
			change: func(p *Params, _ *slot.Plan) { p.Codec = "int8" },
		},
		{
			name: "a plan of another run", n: 4, links: speed(1024),
			change: func(_ *Params, plan *slot.Plan) { plan.Pieces = plan.Pieces[1:] },
		},
	} {
		p := testParams(elements, 1024)
		plan := slot.Plan{Slot: 1, Offers: offersOf(c.n)}
		plan.Pieces = Pieces(p, 0, plan.Offers)
		if c.change != nil {
			c.change(&p, &plan)
		}
		e := p.Estimate(plan, linksOf(c.n, c.links))
		if got := float64(e.Takes) / second; got < .97*c.seconds || got > 1.03*c.seconds || e.Relayed != c.relayed {
			t.Errorf("%s: %.3f s, %d bytes through relays; want %.3f and %d", c.name, got, e.Relayed, c.seconds,
				c.relayed)
		}
	}
}
