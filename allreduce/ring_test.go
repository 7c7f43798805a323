package allreduce

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// goRound makes the plan's schedule a ring, in an order that is drawn.
func (g *group) goRound(rng *rand.Rand) {
	g.plan.Ring = nil
	for _, i := range rng.Perm(len(g.plan.Offers)) {
		g.plan.Ring = append(g.plan.Ring, uint16(i))
	}
}

// Contributions are decoded and the outcome encoded each by its own codec, whatever these lose.
func TestRingOfCodecs(t *testing.T) {
	eachCodec(t, func(t *testing.T, name string, block int) {
		rng := rand.New(rand.NewPCG(2, 8))
		for _, a := range Aggregators() {
			frame := block * max(1, 256/block)
			p := testParams(7*frame+rng.IntN(frame), frame)
			p.Codec, p.Aggregator, p.Clip = name, a, a != Mean
			g := newGroup(t, p, 4, rng)
			g.goRound(rng)
			g.startAll()
			g.wait()
			g.check()
		}
	})
}

// A ring gives the reference's bits, in the ring's order, for every aggregator, group size and
// ragged tail.
func TestRingIsTheReference(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	for seed := range uint64(40) {
		n := 1 + rng.IntN(9)
		p := testParams(1+rng.IntN(4000), 1+rng.IntN(200))
		p.Aggregator = Aggregators()[rng.IntN(3)]
		p.Clip = rng.IntN(2) == 0
		p.TrimPermille = rng.IntN(450)
		t.Run(fmt.Sprintf("%d: %d peers, %d elements in frames of %d, %s, trim %d, clip %v",
			seed, n, p.Fragments[0], p.FrameElements, p.Aggregator, p.TrimPermille, p.Clip), func(t *testing.T) {
			g := newGroup(t, p, n, rand.New(rand.NewPCG(seed, 5)))
			g.goRound(rng)
			if rng.IntN(3) == 0 { // somebody is gone from the beginning
				g.revise(rng.IntN(n))
			}
			if len(g.plan.Pieces) == 0 {
				return // there was one
			}
			g.startAll(g.gone...)
			g.wait()
			g.check()
			for _, r := range g.running {
				r.wg.Wait() // streams end by themselves: an engine that closes resets them
			}
			g.close()
			for i, s := range g.sinks {
				if l := s.lost(); len(l) > 0 && !slices.Contains(g.gone, i) {
					t.Errorf("peer %d lost %v", i, l)
				}
			}
		})
	}
}
