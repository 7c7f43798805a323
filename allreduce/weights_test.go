package allreduce

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/allreduce/internal/plan"
	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// outcomeOf reduces a group's plan and returns its outcome, which all peers have.
func outcomeOf(g *group) []byte {
	g.t.Helper()
	g.startAll()
	g.wait()
	var all []byte
	for i, r := range g.running {
		b, ok := r.Result(slot.Range{End: g.params.Fragments[0]})
		if !ok || all != nil && !bytes.Equal(b, all) {
			g.t.Fatalf("peer %d has another result (complete: %v)", i, ok)
		}
		all = bytes.Clone(b)
	}
	return all
}

// A peer that claims 2^50 tokens moves a mean as if it had claimed eight times the median: of the
// records, or of the plan where there are none. A peer with eight times the median counts whole.
func TestHugeClaimsAreCapped(t *testing.T) {
	const n, liar = 4, 2
	for name, c := range map[string]struct {
		usual  uint64
		claims [n]uint64
		as     uint64 // what the liar's claim counts as
	}{
		"recorded":      {100, [n]uint64{100, 90, 1 << 50, 800}, 800},
		"none recorded": {0, [n]uint64{100, 90, 1 << 50, 800}, 800},
		"at the first":  {0, [n]uint64{10, 20, 1 << 50, 30}, 160},
	} {
		for _, ring := range []bool{false, true} {
			p := testParams(3000, 100)
			p.WeightRatio, p.Discount = 8, []uint32{1000}
			run := func(claim uint64) []byte {
				g := newGroup(t, p, n, rand.New(rand.NewPCG(3, 3)))
				g.plan.Usual = c.usual
				for i := range g.plan.Offers {
					g.plan.Offers[i].Weight = c.claims[i]
				}
				g.plan.Offers[liar].Weight = claim
				if ring {
					g.plan.Ring = []uint16{0, 1, 2, 3}
				}
				return outcomeOf(g)
			}
			if !bytes.Equal(run(1<<50), run(c.as)) {
				t.Errorf("%s, ring %v: a claim of 2^50 does not count as %d", name, ring, c.as)
			}
			if bytes.Equal(run(c.as), run(c.as-1)) {
				t.Errorf("%s, ring %v: less than the cap counts the same", name, ring)
			}
		}
	}
}

// A contribution of nothing changes nothing: the outcome is that of the others alone, as if they
// were all, with every aggregator. What it owns it reduces like any other.
func TestEmptyContributionsWeighNothing(t *testing.T) {
	const n, idle = 5, 1
	for _, agg := range Aggregators() {
		for _, clip := range []bool{false, true} {
			p := testParams(3000, 100)
			p.Aggregator, p.Clip, p.Empties, p.Schedule = agg, clip, true, Rotation
			g := newGroup(t, p, n, rand.New(rand.NewPCG(5, 5)))
			for i := range g.vectors[idle] {
				g.vectors[idle][i] *= 1e-6
			}
			g.own[idle] = commit(plan.NewGrid(p, 0), peerName(idle), kernel.Bytes(g.vectors[idle]))
			g.makePlan(rand.New(rand.NewPCG(5, 5)))
			got := outcomeOf(g)

			others := g.plan
			others.Offers = slices.Delete(slices.Clone(others.Offers), idle, idle+1)
			vectors := slices.Delete(slices.Clone(g.vectors), idle, idle+1)
			want := kernel.Bytes(reference(p, others, vectors, []int{0, 1, 2, 3}))
			if !bytes.Equal(got, want) {
				t.Errorf("%s, clip %v: a contribution of nothing moves the outcome", agg, clip)
			}
		}
	}
}

// An offer whose norm is not that of all frames is refused by every owner, whatever the frames say.
func TestFalseTotalsAreRefused(t *testing.T) {
	const sender = 1
	g := newGroup(t, testParams(3000, 100), 3, rand.New(rand.NewPCG(2, 2)))
	g.plan.Offers[sender].NormSq *= 1 + 1e-15
	g.startAll()
	for _, i := range []int{0, 2} {
		g.named(i)
		onlyLost(t, "an owner", g.sinks[i], peerName(sender), FalseNorm)
	}
	g.revise(sender)
	g.startAll(sender)
	g.wait()
	g.check()
}
