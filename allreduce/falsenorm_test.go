package allreduce

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// proofs is a recorder that keeps what proves a peer's fault.
type proofs struct {
	*recorder
	mu  sync.Mutex
	bad []*BadFrame
}

func (p *proofs) Lost(peer slot.PeerID, reason Reason, err error) {
	var bad *BadFrame
	if errors.As(err, &bad) {
		p.mu.Lock()
		p.bad = append(p.bad, bad)
		p.mu.Unlock()
	}
	p.recorder.Lost(peer, reason, err)
}

// A norm that is not the true one, by a single bit, loses the contributor, whether norms are used
// or not, and what the sink gets proves it.
func TestFalseNormIsNamed(t *testing.T) {
	const sender = 1
	for name, change := range map[string]func(v float64) float64{
		"greater": func(v float64) float64 { return math.Nextafter(v, math.Inf(1)) },
		"less":    func(v float64) float64 { return math.Nextafter(v, 0) },
		"NaN":     func(float64) float64 { return math.NaN() },
	} {
		for _, clip := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				p := testParams(3000, 100)
				p.Clip = clip
				g := newGroup(t, p, 3, rand.New(rand.NewPCG(2, 2)))
				c := copyOf(g.own[sender])
				for f := range c.leaves {
					c.leaves[f].NormSq = change(c.leaves[f].NormSq)
				}
				grid := g.engines[0].grids[0]
				c.root = slot.ContributionRoot(c.peer, c.leaves, grid.FrameBytes, uint64(grid.TotalBytes))
				g.own[sender] = c
				g.makePlan(rand.New(rand.NewPCG(2, 2)))
				told := &proofs{recorder: g.sinks[0]}
				r, err := g.engines[0].Start(t.Context(), g.plan, g.own[0], told)
				if err != nil {
					t.Fatal(err)
				}
				g.start(1)
				g.start(2)
				g.named(0)
				onlyLost(t, "an owner", g.sinks[0], peerName(sender), FalseNorm)
				told.mu.Lock()
				defer told.mu.Unlock()
				bad := told.bad[0]
				root, ok := slot.ContributionRootFrom(bad.Peer, bad.Leaf, bad.Frame, bad.Path, grid.FrameBytes,
					uint64(grid.TotalBytes))
				if !ok || root != c.root || bad.Leaf.Hash != slot.Hash(bad.Bytes) ||
					kernel.NormSq(kernel.Float32s(bad.Bytes)) == bad.Leaf.NormSq {
					t.Errorf("%v proves nothing", bad)
				}
				err = new(frame).check(grid, bad.Frame, bad.Bytes, bad.Leaf, true)
				if !errors.Is(err, ErrFalseNorm) {
					t.Errorf("the frame's check says %v", err)
				}
				leaves, ok := r.Leaves(peerName(sender))
				if !ok || !slices.EqualFunc(leaves, c.leaves, slot.FrameLeaf.Equal) {
					t.Error("the reduction does not know what the peer has committed to")
				}
			})
		}
	}
}

func TestLeavesOfAllContributors(t *testing.T) {
	g := newGroup(t, testParams(3000, 100), 3, rand.New(rand.NewPCG(2, 2)))
	g.startAll()
	g.wait()
	for _, r := range g.running {
		for i := range g.own {
			leaves, ok := r.Leaves(peerName(i))
			if !ok || !slices.EqualFunc(leaves, g.own[i].Leaves(), slot.FrameLeaf.Equal) {
				t.Errorf("peer %d has not the leaves of peer %d", g.started[r], i)
			}
		}
		if _, ok := r.Leaves("stranger"); ok {
			t.Error("leaves of a stranger")
		}
	}
}
