package p2pdiloco

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/checkpoint"
	"github.com/p2pdiloco/p2pdiloco/outeropt"
)

// layered is a witness whose model has layers.
type layered struct{ *witness }

func (layered) Layout() Layout {
	return Layout{
		{Name: "wte", Shape: []uint64{100, 10}},
		{Name: "h.0.w", Shape: []uint64{700}},
		{Name: "h.1.w", Shape: []uint64{700}},
		{Name: "h.2.w", Shape: []uint64{700}},
		{Name: "h.3.w", Shape: []uint64{700}},
		{Name: "lnf", Shape: []uint64{1200}},
	}
}

// layeredParts are the elements of a layered model's fragments, of three, strided: wte and most of layer 0; the rest of that, layers 3 and 1
// and the beginning of 2; the rest of that and lnf.
func layeredParts() (parts [3][]int) {
	for j := range bowlElements {
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

// With three fragments the states of all peers, also of one that joins late and of one that is killed and restarted, are those of a
// sequential replay with three outer optimizers that know nothing of each other: bit for bit, after every slot.
func TestFragmentsHaveOuterStatesOfTheirOwn(t *testing.T) {
	for _, outer := range []string{outeropt.Nesterov, outeropt.DelayedNesterov, outeropt.Adam} {
		t.Run(outer, func(t *testing.T) {
			spec := simSpec(4, 3)
			spec.Fragments, spec.Outer, spec.DNEvery, spec.Aggregator, spec.Clip = 3, outer, 2, "mean", "off"
			spec.Mode, spec.FragmentDelay, spec.MaxWeight = ModeStreaming, "0", 1 // a slot lands at its border, and all weigh alike
			inSim(t, 10*time.Millisecond, spec, 4, func(s *swarm) {
				witnesses := make(map[PeerID]*witness)
				for _, p := range s.peers {
					w := newWitness(p.host)
					w.at = func() uint64 { return p.node.Load().held }
					p.trainer, witnesses[s.id(p)] = layered{w}, w
				}
				late, killed := s.peers[3], s.peers[1]
				s.start(s.but(late)...)
				s.reach(2, s.but(late)...)
				s.start(late)
				s.reach(4, s.but(late)...)
				s.kill(killed)
				s.reach(6, s.but(late, killed)...)
				s.restart(killed)
				s.finish(2*time.Minute, s.peers...)
				replayFragments(t, s, witnesses)
				for _, p := range []*simPeer{late, killed} {
					if !s.contributedAfter(p, 6) {
						t.Errorf("host %d has not contributed again", p.host)
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

func replayFragments(t *testing.T, s *swarm, witnesses map[PeerID]*witness) {
	t.Helper()
	theta := make([]float32, bowlElements)
	_ = (&bowl{}).Init(t.Context(), theta)
	vectors := [][]float32{theta}
	var optimizers [3]fragmentOptimizer
	for p, elements := range layeredParts() {
		o, err := outeropt.New(s.spec.Settled().outer(), uint64(len(elements)))
		if err != nil {
			t.Fatal(err)
		}
		optimizers[p] = fragmentOptimizer{Optimizer: o, elements: elements}
	}
	for range optimizers[0].State() {
		vectors = append(vectors, make([]float32, bowlElements))
	}
	checked := 0
	for slotNumber := range s.spec.LastSlot() {
		for id, w := range witnesses {
			if a := w.anchors[slotNumber]; a != nil {
				same(t, fmt.Sprintf("host %d: anchor %d", s.byID(id).host, slotNumber), a, theta)
			}
		}
		slotNumber++
		for _, w := range witnesses { // whatever has become of the rest: its fragment was the anchor's when it landed last
			w.tokens, w.starts[slotNumber] = 1, slices.Clone(theta)
		}
		o := &optimizers[(slotNumber-1)%3]
		o.step(theta, byHand{}.mean(witnesses, s.contributors(slotNumber), slotNumber))
		for k, v := range o.State() {
			for i, j := range o.elements {
				vectors[1+k][j] = v[i]
			}
		}
		want := checkpoint.StateRoot(slotNumber, vectors...)
		for _, p := range s.peers {
			root, held := p.states()[slotNumber]
			if held {
				checked++
			}
			if held && root != want {
				t.Fatalf("host %d: the state after slot %d has root %s, the replay's has %s", p.host, slotNumber, root.Short(), want.Short())
			}
		}
	}
	if checked < 3*int(s.spec.LastSlot()) {
		t.Errorf("%d states were compared", checked)
	}
}

func TestSpecRefusesFragmentsThatCannotBe(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Spec)
		want   string
	}{
		"more than elements": {func(s *Spec) { s.Fragments, s.Layout = 4, Layout{{Name: "x", Shape: []uint64{3}}} }, "more than the model's 3 elements"},
		"too many":           {func(s *Spec) { s.Fragments = 257 }, "allowed: 1 to 256"},
		"stale":              {func(s *Spec) { s.Fragments, s.Discount = 2, []uint64{1000, 500} }, "the next slot takes another"},
		"order":              {func(s *Spec) { s.FragmentOrder = "random" }, "allowed: strided, sequential"},
	} {
		s := testSpec()
		if c.change(&s); s.Validate() == nil || !strings.Contains(s.Validate().Error(), c.want) {
			t.Errorf("%s: %v", name, s.Validate())
		}
		if s = s.Settled(); s.Fragments > 0 {
			if _, err := ParseSpec(s.Append(nil)); err == nil {
				t.Errorf("%s: a stranger's is accepted", name)
			}
		}
	}
	s := testSpec()
	s.Mode, s.Fragments, s.Rounds = ModeStreaming, 7, 5
	if s = s.Settled(); s.Validate() != nil || s.LastSlot() != 35 || s.FragmentOf(1) != 0 || s.FragmentOf(35) != 6 {
		t.Errorf("%v: last slot %d, fragments %d and %d", s.Validate(), s.LastSlot(), s.FragmentOf(1), s.FragmentOf(35))
	}
	var sizes []uint64
	for p, f := range s.fragments() {
		sizes = append(sizes, f.Elements())
		if f.Elements() != s.fragmentElements()[p] {
			t.Errorf("fragment %d has %d elements", p, f.Elements())
		}
	}
	if !slices.Equal(sizes, []uint64{430, 430, 430, 430, 430, 430, 430}) {
		t.Errorf("sizes %v", sizes)
	}
}
