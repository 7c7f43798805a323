package allreduce

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/allreduce/internal/plan"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// nextSlot makes contributions and a plan for the slot after the last, and so for the next
// fragment.
func (g *group) nextSlot(rng *rand.Rand) {
	g.t.Helper()
	g.plan.Height++
	g.plan.Slot++
	g.plan.Opened.Ref, g.plan.Fragment = g.plan.Ref, slot.FragmentOf(g.plan.Slot, uint64(len(g.params.Fragments)))
	for i := range g.own {
		v := make([]float32, g.params.Fragments[g.plan.Fragment])
		for j := range v {
			v[j] = rng.Float32() - 0.5
		}
		grid := plan.NewGrid(g.params, g.plan.Fragment)
		own, err := Commit(g.params, g.plan.Fragment, peerName(i), encoded(grid, v))
		if err != nil {
			g.t.Fatal(err)
		}
		g.vectors[i], g.own[i] = v, own
		o := &g.plan.Offers[i]
		o.Slot, o.Seq, o.Base = g.plan.Slot, o.Seq+1, g.plan.Slot-1
		o.Root, o.NormSq = own.Root(), own.NormSq()
	}
	g.plan.Pieces = Pieces(g.params, g.plan.Fragment, g.plan.Offers)
	for i := range g.sinks {
		g.sinks[i] = newRecorder()
	}
}

// One engine reduces the fragments in turn, each with the bits of the reference, and frames and
// buffers of one are used for the next: one that is larger by an element, too. What a slot sends is
// that part of the vector, and nothing more.
func TestFragmentsInTurn(t *testing.T) {
	const elements, peers = 10_001, 4
	sent := make(map[int]uint64) // the most that a peer sent in a slot, by the number of fragments
	for _, fragments := range []int{1, 4} {
		rng := rand.New(rand.NewPCG(9, uint64(fragments)))
		p := testParams(elements, 128)
		p.Fragments = slot.FragmentElements(elements, uint64(fragments))
		p.Aggregator, p.Clip = TrimmedMean, true
		g := newGroup(t, p, peers, rng)
		for range 2*fragments + 1 {
			g.nextSlot(rng)
			g.startAll()
			g.wait()
			g.check()
			g.checkSinks()
			for _, r := range g.running {
				r.Release()
				out, _ := r.Traffic()
				sent[fragments] = max(sent[fragments], out)
			}
		}
	}
	t.Logf("most bytes that a peer sent in a slot: %d of the whole vector, %d of a quarter", sent[1], sent[4])
	const part, tolerance = 4, 2048 // hellos, and frames that do not come out even
	if sent[4] > sent[1]/part+tolerance || sent[1] < 2*3*elements {
		t.Errorf("a slot of a quarter sends %d bytes, one of the whole %d", sent[4], sent[1])
	}
}

// Fragments smaller than a frame, the first larger than the last: a frame's room fits all.
func TestFragmentsSmallerThanAFrame(t *testing.T) {
	rng := rand.New(rand.NewPCG(10, 10))
	p := testParams(5, 64)
	p.Fragments = slot.FragmentElements(5, 3)
	g := newGroup(t, p, 3, rng)
	g.plan.Slot = 8 // the smallest comes first
	for range 7 {
		g.nextSlot(rng)
		g.startAll()
		g.wait()
		g.check()
		for _, r := range g.running {
			r.Release()
		}
	}
}

func TestAnotherFragmentThanTheSlotsIsRefused(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 11))
	p := testParams(100, 8)
	p.Fragments = slot.FragmentElements(100, 3) // 34, 33, 33
	g := newGroup(t, p, 2, rng)
	g.nextSlot(rng) // fragment 1
	start := func(plan slot.Plan) error {
		_, err := g.engines[0].Start(context.Background(), plan, g.own[0], g.sinks[0])
		return err
	}
	for _, fragment := range []uint32{0, 2, 3, 1 << 31} {
		plan := g.plan
		if plan.Fragment = fragment; start(plan) == nil || !strings.Contains(start(plan).Error(), "fragment") {
			t.Errorf("fragment %d in slot %d: %v", fragment, plan.Slot, start(plan))
		}
	}
	plan := g.plan
	plan.Pieces = Pieces(p, 0, plan.Offers) // an element too many
	if start(plan) == nil {
		t.Error("pieces of another fragment are taken")
	}
	if _, err := Commit(p, 1, "ada", make([]byte, 4*34)); err == nil {
		t.Error("a contribution of another fragment's size is taken")
	}
	if err := start(g.plan); err != nil {
		t.Error(err)
	}
	for n, sizes := range map[string][]uint64{
		"choose 1 to 256":            make([]uint64, 257),
		"fragment 1 has no elements": {3, 0},
	} {
		if p.Fragments = sizes; p.Validate() == nil || !strings.Contains(p.Validate().Error(), n) {
			t.Errorf("%s: %v", n, p.Validate())
		}
	}
}
