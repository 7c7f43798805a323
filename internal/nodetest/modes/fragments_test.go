package modes

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/checkpoint"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
	"github.com/p2pdiloco/p2pdiloco/outeropt"
)

// layered is a witness whose model has layers.
type layered struct{ *witness }

func (layered) Layout() p2pdiloco.Layout {
	return p2pdiloco.Layout{
		{Name: "wte", Shape: []uint64{100, 10}},
		{Name: "h.0.w", Shape: []uint64{700}},
		{Name: "h.1.w", Shape: []uint64{700}},
		{Name: "h.2.w", Shape: []uint64{700}},
		{Name: "h.3.w", Shape: []uint64{700}},
		{Name: "lnf", Shape: []uint64{1200}},
	}
}

// layeredParts are the elements of a layered model's fragments, of three, strided: wte and most of
// layer 0; the rest of that, layers 3 and 1 and the beginning of 2; the rest of that and lnf.
func layeredParts() (parts [3][]int) {
	for j := range nodetest.BowlElements {
		p := 2
		switch {
		case j < 1667:
			p = 0
		case j < 2634 || j >= 3100 && j < 3800:
			p = 1
		}
		parts[p] = append(parts[p], j)
	}
	return parts
}

// With three fragments the states of all peers, also of one that joins late and of one that is
// killed and restarted, are those of a sequential replay with three outer optimizers that know
// nothing of each other: bit for bit, after every slot.
func TestFragmentsHaveOuterStatesOfTheirOwn(t *testing.T) {
	for _, outer := range []string{outeropt.Nesterov, outeropt.DelayedNesterov, outeropt.Adam} {
		t.Run(outer, func(t *testing.T) {
			spec := nodetest.Spec(4, 3)
			spec.Fragments, spec.Outer, spec.DNEvery, spec.Aggregator, spec.Clip = 3, outer, 2, "mean", "off"
			// a slot lands at its border, and all weigh alike
			spec.Mode, spec.FragmentDelay, spec.MaxWeight = p2pdiloco.ModeStreaming, "0", 1
			nodetest.Run(t, 10*time.Millisecond, spec, 4, func(s *nodetest.Swarm) {
				witnesses := make(map[p2pdiloco.PeerID]*witness)
				for _, p := range s.Peers {
					w := newWitness(p.Host)
					watch(p, w, spec.Fragments)
					p.Trainer, witnesses[s.ID(p)] = layered{w}, w
				}
				late, killed := s.Peers[3], s.Peers[1]
				s.Start(s.But(late)...)
				s.Reach(2, s.But(late)...)
				s.Start(late)
				s.Reach(4, s.But(late)...)
				s.Kill(killed)
				s.Reach(6, s.But(late, killed)...)
				s.Restart(killed)
				s.Finish(2*time.Minute, s.Peers...)
				replayFragments(t, s, witnesses)
				for _, p := range []*nodetest.Peer{late, killed} {
					if !s.ContributedAfter(p, 6) {
						t.Errorf("host %d has not contributed again", p.Host)
					}
				}
			})
		})
	}
}

// fragmentOptimizer is one fragment's outer optimizer, and how often it has stepped.
type fragmentOptimizer struct {
	outeropt.Optimizer
	elements []int
	steps    uint64
}

func (o *fragmentOptimizer) step(theta, g []float32) {
	p, part := make([]float32, len(o.elements)), make([]float32, len(o.elements))
	for i, j := range o.elements {
		p[i], part[i] = theta[j], g[j]
	}
	o.steps++
	o.Step(p, part, outeropt.At{Step: o.steps})
	for i, j := range o.elements {
		theta[j] = p[i]
	}
}

func replayFragments(t *testing.T, s *nodetest.Swarm, witnesses map[p2pdiloco.PeerID]*witness) {
	t.Helper()
	theta := make([]float32, nodetest.BowlElements)
	_ = (&nodetest.Bowl{}).Init(t.Context(), theta)
	vectors := [][]float32{theta}
	var optimizers [3]fragmentOptimizer
	for p, elements := range layeredParts() {
		o, err := outeropt.New(s.Spec.Settled().OuterConfig(), uint64(len(elements)))
		if err != nil {
			t.Fatal(err)
		}
		optimizers[p] = fragmentOptimizer{Optimizer: o, elements: elements}
	}
	for range optimizers[0].State() {
		vectors = append(vectors, make([]float32, nodetest.BowlElements))
	}
	checked := 0
	for slotNumber := range s.Spec.LastSlot() {
		for id, w := range witnesses {
			if a := w.anchors[slotNumber]; a != nil {
				nodetest.SameVectors(t, fmt.Sprintf("host %d: anchor %d", s.ByID(id).Host, slotNumber), a, theta)
			}
		}
		slotNumber++
		// whatever has become of the rest: its fragment was the anchor's when it landed last
		for _, w := range witnesses {
			w.tokens, w.starts[slotNumber] = 1, slices.Clone(theta)
		}
		o := &optimizers[(slotNumber-1)%3]
		o.step(theta, byHand{}.mean(witnesses, s.Contributors(slotNumber), slotNumber))
		for k, v := range o.State() {
			for i, j := range o.elements {
				vectors[1+k][j] = v[i]
			}
		}
		want := checkpoint.StateRoot(slotNumber, vectors...)
		for _, p := range s.Peers {
			root, held := p.States()[slotNumber]
			if held {
				checked++
			}
			if held && root != want {
				t.Fatalf("host %d: the state after slot %d has root %s, the replay's has %s", p.Host, slotNumber,
					root.Short(), want.Short())
			}
		}
	}
	if checked < 3*int(s.Spec.LastSlot()) {
		t.Errorf("%d states were compared", checked)
	}
}
