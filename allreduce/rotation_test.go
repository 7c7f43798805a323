package allreduce

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Every peer ends with the bits of the naive reference, for all aggregators and group sizes.
func TestMatchesReference(t *testing.T) {
	seed := uint64(1)
	for n := 1; n <= 9; n++ {
		for _, a := range Aggregators() {
			for _, clip := range []bool{false, true} {
				seed++
				rng := rand.New(rand.NewPCG(seed, 0))
				elements := 1 + rng.IntN(1<<rng.IntN(16))
				frame := 1 + rng.IntN(max(1, elements/(1+rng.IntN(4*n))))
				frame = max(frame, elements/200)
				t.Run(fmt.Sprintf("%d peers/%s/clip=%v/%d elements in frames of %d", n, a, clip, elements, frame),
					func(t *testing.T) {
						p := testParams(elements, frame)
						p.Aggregator, p.Clip = a, clip
						g := newGroup(t, p, n, rng)
						g.startAll()
						g.wait()
						g.check()
						g.checkSinks()
					})
			}
		}
	}
}

func TestMillionElements(t *testing.T) {
	p := testParams(1_000_003, 65_536)
	p.Aggregator, p.Clip = TrimmedMean, true
	g := newGroup(t, p, 5, rand.New(rand.NewPCG(5, 5)))
	g.startAll()
	g.wait()
	g.check()
}

// checkSinks fails unless the sinks have heard of every piece once, with a full contributor set and
// the root of the bytes that all peers have.
func (g *group) checkSinks() {
	g.t.Helper()
	roots := make(map[slot.Range]slot.Root)
	for i, s := range g.sinks {
		if l := s.lost(); len(l) != 0 {
			g.t.Errorf("peer %d lost %v", i, l)
		}
		for _, d := range s.mu.done {
			if _, again := roots[d.Range]; again {
				g.t.Errorf("%v is done twice", d.Range)
			}
			roots[d.Range] = d.Root
			if d.Contributors.Count() != len(g.plan.Offers) {
				g.t.Errorf("%d contributors of %d", d.Contributors.Count(), len(g.plan.Offers))
			}
		}
	}
	if len(roots) != len(g.plan.Pieces) {
		g.t.Fatalf("%d pieces done of %d", len(roots), len(g.plan.Pieces))
	}
	size := g.engines[0].outs[g.plan.Fragment].FrameBytes
	for i, r := range g.running {
		for rng, root := range roots {
			b, ok := r.Result(rng)
			if !ok || slot.FrameRoot(slot.FrameHashes(b, size), size, uint64(len(b))) != root {
				g.t.Errorf("peer %d has another root for %v", i, rng)
			}
		}
	}
}

// A piece that is cut at a frame border comes out with the same bits: the clip factor belongs to
// the frame.
func TestSplitPiecesSameBits(t *testing.T) {
	p := testParams(1000, 64)
	p.Aggregator, p.Clip = Median, true
	g := newGroup(t, p, 3, rand.New(rand.NewPCG(3, 3)))
	first := g.plan.Pieces[0]
	g.plan.Pieces = append([]slot.Piece{
		{Range: slot.Range{End: 64}, Owner: peerName(2)},
		{Range: slot.Range{Begin: 64, End: first.Range.End}, Owner: first.Owner},
	}, g.plan.Pieces[1:]...)
	g.startAll()
	g.wait()
	g.check()
	g.checkSinks()
}

// Slots follow one another on the same engines; released buffers are used again.
func TestSlotsInSequence(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	g := newGroup(t, testParams(5000, 100), 4, rng)
	for range 3 {
		g.startAll()
		g.wait()
		g.check()
		whole, _ := g.running[0].Result(slot.Range{End: 5000})
		for _, r := range g.running {
			r.Release()
			r.Release()
			if _, ok := r.Result(slot.Range{End: 100}); ok {
				t.Fatal("a released result is still given out")
			}
		}
		g.plan.Height++
		g.plan.Opened.Height++
		g.start(0)
		if again := g.running[len(g.running)-1].result; &again[0] != &whole[0] {
			t.Error("the released buffer was not used again")
		}
		g.plan.Revision++
	}
}
