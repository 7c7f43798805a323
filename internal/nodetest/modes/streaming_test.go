package modes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/testlevel"
)

// streamer is a bowl whose model has layers, and which remembers what its live parameters were
// before each of its runs and what was measured.
type streamer struct {
	nodetest.Bowl
	tokens   uint64 // a step
	lives    map[place][]float32
	measured map[uint64][]float32 // by slot
	seen     []float32            // what was measured last
	moved    int                  // elements that were loaded
	at       place                // that it has trained to
	landed   map[uint64]uint64    // inner steps of a slot after which the one before landed
}

// place is a point of a run.
type place struct{ slot, done uint64 }

func newStreamer(host int) *streamer {
	return &streamer{
		Bowl:   nodetest.Bowl{Target: float32(host), Pace: 10 * time.Millisecond},
		tokens: uint64(3 + host), lives: make(map[place][]float32), measured: make(map[uint64][]float32),
		landed: make(map[uint64]uint64),
	}
}

// Layout has layers that do not lie in the order of their numbers, and an odd number of elements.
func (l *streamer) Layout() p2pdiloco.Layout {
	return p2pdiloco.Layout{
		{Name: "embed", Shape: []uint64{700}},
		{Name: "layers.2.w", Shape: []uint64{900}},
		{Name: "layers.0.w", Shape: []uint64{1100}},
		{Name: "layers.1.w", Shape: []uint64{1000}},
		{Name: "layers.3.w", Shape: []uint64{1001}},
		{Name: "head", Shape: []uint64{310}},
	}
}

func (l *streamer) Load(ctx context.Context, x []float32) error {
	l.loaded(len(x))
	return l.Bowl.Load(ctx, x)
}

// loaded notes that so many elements were. What is loaded first after a border has landed; later,
// at the next one, the anchor is measured.
func (l *streamer) loaded(elements int) {
	l.moved += elements
	if _, ok := l.landed[l.at.slot]; !ok {
		l.landed[l.at.slot] = l.at.done
	}
}

func (l *streamer) Train(ctx context.Context, task p2pdiloco.Task) (p2pdiloco.Stats, error) {
	l.lives[place{task.Slot, task.Done}] = slices.Clone(l.X)
	stats, err := l.Bowl.Train(ctx, task)
	stats.Tokens = l.tokens * uint64(stats.Steps)
	l.at = place{task.Slot, task.Done + uint64(stats.Steps)}
	return stats, err
}

func (l *streamer) Evaluate(context.Context) (float64, error) {
	l.seen = slices.Clone(l.X)
	return 1, nil
}

// divided is a streamer that moves parts of its parameters.
type divided struct{ *streamer }

func (d divided) LoadRange(_ context.Context, begin int, src []float32) error {
	d.loaded(copy(d.X[begin:], src))
	return nil
}

func (d divided) ExportRange(_ context.Context, begin int, dst []float32) error {
	copy(dst, d.X[begin:])
	return nil
}

// mute is one that says it cannot.
type mute struct{ *streamer }

func (mute) LoadRange(context.Context, int, []float32) error   { return errors.ErrUnsupported }
func (mute) ExportRange(context.Context, int, []float32) error { return errors.ErrUnsupported }

func streamSpec(rounds, startPeers, fragments uint64) p2pdiloco.Spec {
	spec := nodetest.Spec(rounds, startPeers)
	spec.Mode, spec.Fragments = p2pdiloco.ModeStreaming, fragments
	return spec
}

// streaming makes the peers streamer trainers: of each way in which parameters are moved one, as
// long as there are peers.
func streaming(s *nodetest.Swarm) map[p2pdiloco.PeerID]*streamer {
	all := make(map[p2pdiloco.PeerID]*streamer)
	for i, p := range s.Peers {
		l := newStreamer(p.Host)
		p.OnEvent = func(e p2pdiloco.Event) { // right after Evaluate
			if e.Name == "trainer.stats" && l.seen != nil {
				l.measured[s.Spec.Fragments*e.Fields["round"].(uint64)] = l.seen
			}
		}
		switch i % 3 {
		case 0:
			p.Trainer = l
		case 1:
			p.Trainer = divided{l}
		case 2:
			p.Trainer = mute{l}
		}
		all[s.ID(p)] = l
	}
	return all
}

// What comes out is a plain sequential replay of the equations, bit for bit: all anchors, and all
// live parameters before and after each slot has landed.
func TestStreamingIsItsEquations(t *testing.T) {
	cases := []struct {
		fragments, steps uint64
		delay, alpha     string
		order            string
	}{
		{1, 10, "0", "0", p2pdiloco.OrderStrided},
		{1, 10, "4", "0.5", p2pdiloco.OrderStrided},
		{2, 10, "5", "0", p2pdiloco.OrderStrided},
		{2, 9, "2", "0.5", p2pdiloco.OrderStrided},
		{3, 10, "0", "0.5", p2pdiloco.OrderSequential},
		{4, 11, "2", "0.5", p2pdiloco.OrderStrided},
		{4, 8, "2", "0", p2pdiloco.OrderSequential},
		{3, 10, "3", "0", p2pdiloco.OrderStrided}, // from here at night: other delays
		{4, 10, "1", "0", p2pdiloco.OrderStrided},
	}
	for i, c := range cases[:testlevel.Choose(7, 7, 9)] {
		t.Run(fmt.Sprintf("P=%d,H=%d,tau=%s,alpha=%s,%s", c.fragments, c.steps, c.delay, c.alpha, c.order),
			func(t *testing.T) {
				spec := streamSpec(3, 3, c.fragments)
				spec.InnerSteps, spec.FragmentDelay, spec.FragmentAlpha, spec.FragmentOrder = c.steps, c.delay, c.alpha,
					c.order
				spec.Aggregator, spec.Clip = "mean", "off"
				nodetest.Run(t, 10*time.Millisecond, spec, 3, func(s *nodetest.Swarm) {
					trainers := streaming(s)
					if i%2 == 0 {
						s.Peers[1].Trainer = graded{s.Peers[1].Trainer.(divided)}
					}
					s.Start(s.Peers...)
					s.Finish(2*time.Minute, s.Peers...)
					r := newReplay(s, trainers)
					for slotNumber := uint64(1); slotNumber <= r.spec.LastSlot(); slotNumber++ {
						r.slot(t, slotNumber)
					}
					r.end(t)
				})
			})
	}
}

// replayed is mode streaming by hand: all peers one after the other, and no more than its
// equations.
type replayed struct {
	spec     p2pdiloco.Spec
	s        *nodetest.Swarm
	trainers map[p2pdiloco.PeerID]*streamer
	theta, v []float32
	live     map[p2pdiloco.PeerID]*nodetest.Bowl
	h        byHand
}

func newReplay(s *nodetest.Swarm, trainers map[p2pdiloco.PeerID]*streamer) *replayed {
	r := &replayed{
		s: s, trainers: trainers, live: make(map[p2pdiloco.PeerID]*nodetest.Bowl),
		h: byHand{lr: 0.7, mu: 0.6, nesterov: true},
	}
	for id, l := range trainers {
		spec := s.Spec
		spec.Layout = l.Layout()
		r.spec = spec.Settled()
		b := &nodetest.Bowl{Target: l.Target, X: make([]float32, spec.Layout.Elements())}
		_ = b.Init(s.T.Context(), b.X)
		r.live[id], r.theta = b, slices.Clone(b.X)
	}
	r.v = make([]float32, len(r.theta))
	return r
}

func (r *replayed) each(f func(id p2pdiloco.PeerID, b *nodetest.Bowl)) {
	for id, b := range r.live {
		f(id, b)
	}
}

// indices lists the elements of a slot's fragment.
func (r *replayed) indices(slotNumber uint64) (all []int) {
	for _, f := range fragmentOf(r.spec, slotNumber).Ranges {
		for j := f.Begin; j < f.End; j++ {
			all = append(all, int(j))
		}
	}
	return all
}

// fragmentOf is what a slot updates.
func fragmentOf(s p2pdiloco.Spec, slotNumber uint64) slot.Fragment {
	return s.Partition()[s.FragmentOf(slotNumber)]
}

// slot is a slot's inner steps, in whose midst the one before lands, and its outer step.
func (r *replayed) slot(t *testing.T, slotNumber uint64) {
	H, P := r.spec.InnerSteps, r.spec.Fragments
	i := (slotNumber - 1) % P
	todo := int((i+1)*H/P) - int(i*H/P)
	r.each(func(id p2pdiloco.PeerID, b *nodetest.Bowl) {
		lands := 0
		if slotNumber > 1 {
			lands = r.lands(t, id, slotNumber, todo)
			r.train(t, id, b, place{slotNumber, 0}, lands)
			r.land(slotNumber-1, b)
		}
		r.train(t, id, b, place{slotNumber, uint64(lands)}, todo-lands)
	})
	if i == 0 && slotNumber > 1 {
		r.measured(t, slotNumber-1)
	}
	g := r.mean(t, slotNumber)
	for _, j := range r.indices(slotNumber) {
		r.v[j] = float32(r.h.mu*r.v[j]) + g[j]
		r.theta[j] -= float32(r.h.lr * (g[j] + float32(r.h.mu*r.v[j])))
	}
}

// lands is after how many inner steps of a slot the one before has landed on a peer: tau, or as
// many more as it trained meanwhile.
func (r *replayed) lands(t *testing.T, id p2pdiloco.PeerID, slotNumber uint64, todo int) int {
	t.Helper()
	delay, _ := strconv.Atoi(r.spec.FragmentDelay)
	landed, ok := r.trainers[id].landed[slotNumber]
	if !ok || delay == 0 { // a loop of its own, which waits; or everybody does
		return delay
	}
	if int(landed) < delay || int(landed) > todo {
		t.Fatalf("host %d: slot %d landed %d inner steps after its border, of %d, tau being %d", r.s.ByID(id).Host,
			slotNumber-1, landed, todo, delay)
	}
	return int(landed)
}

// train does inner steps of a peer.
func (r *replayed) train(t *testing.T, id p2pdiloco.PeerID, b *nodetest.Bowl, at place, steps int) {
	t.Helper()
	if steps > 0 {
		nodetest.SameVectors(
			t,
			fmt.Sprintf("host %d: live parameters at %+v", r.s.ByID(id).Host, at),
			r.trainers[id].lives[at],
			b.X,
		)
	}
	for range steps {
		b.Step()
	}
}

// land mixes a slot's fragment of the anchor into the live parameters.
func (r *replayed) land(slotNumber uint64, b *nodetest.Bowl) {
	alpha := r.spec.Alpha()
	for _, j := range r.indices(slotNumber) {
		b.X[j] = float32(alpha*b.X[j]) + float32((1-alpha)*r.theta[j])
	}
}

// mean is what the contributors to a slot have moved its fragment by, weighted by the tokens behind
// it.
func (r *replayed) mean(t *testing.T, slotNumber uint64) []float32 {
	contributors, total := r.s.Contributors(slotNumber), 0.0
	if len(contributors) != len(r.live) {
		t.Fatalf("slot %d has %d contributors", slotNumber, len(contributors))
	}
	for _, id := range contributors {
		total += float64(r.trainers[id].tokens)
	}
	g := make([]float32, len(r.theta))
	for _, id := range contributors {
		scale := float32(float64(r.trainers[id].tokens) / total)
		for _, j := range r.indices(slotNumber) {
			g[j] += float32(scale * (r.theta[j] - r.live[id].X[j]))
		}
	}
	return g
}

func (r *replayed) measured(t *testing.T, slotNumber uint64) {
	t.Helper()
	r.each(func(id p2pdiloco.PeerID, _ *nodetest.Bowl) {
		if len(r.trainers[id].measured) == 0 {
			return // a loop of its own
		}
		nodetest.SameVectors(
			t,
			fmt.Sprintf("host %d: anchor %d", r.s.ByID(id).Host, slotNumber),
			r.trainers[id].measured[slotNumber],
			r.theta,
		)
	})
}

// end checks what the trainers are left with.
func (r *replayed) end(t *testing.T) {
	r.measured(t, r.spec.LastSlot())
	r.each(func(id p2pdiloco.PeerID, _ *nodetest.Bowl) {
		nodetest.SameVectors(
			t,
			fmt.Sprintf("host %d: what it is left with", r.s.ByID(id).Host),
			r.trainers[id].X,
			r.theta,
		)
	})
}

// A slot that takes longer than tau lands as soon as it is there, and not at the next border only:
// here it takes some 100 ms, tau 40 ms, and what lies between two borders 300 ms.
func TestALateSlotLandsLaterInTheStream(t *testing.T) {
	spec := streamSpec(5, 3, 2)
	spec.InnerSteps, spec.FragmentDelay = 60, "4"
	nodetest.Run(t, 10*time.Millisecond, spec, 3, func(s *nodetest.Swarm) {
		trainers := streaming(s)
		s.Start(s.Peers...)
		s.Finish(2*time.Minute, s.Peers...)
		for _, p := range s.Peers {
			for slotNumber, landed := range trainers[s.ID(p)].landed {
				if slotNumber > 1 && (landed < 5 || landed > 20) {
					t.Errorf("host %d: the slot before %d landed after %d inner steps", p.Host, slotNumber, landed)
				}
			}
		}
	})
}

// A record says how many inner steps are behind a contribution: all from border to border, though a
// slot has landed in their midst. So many the run's pace asks for. One of the peers is a loop of
// its own.
func TestStepsBehindAContributionToTheStream(t *testing.T) {
	spec := streamSpec(3, 2, 3)
	spec.InnerSteps, spec.FragmentDelay, spec.MinPeers = 11, "2", 2
	nodetest.Run(t, 10*time.Millisecond, spec, 2, func(s *nodetest.Swarm) {
		streaming(s)
		ownLoops(s, s.Peers[:1], streamed)
		s.Start(s.Peers...)
		for slotNumber, want := range []uint32{1: 3, 2: 4, 3: 4, 4: 3} {
			s.Reach(uint64(slotNumber), s.Peers...)
			for _, p := range s.Peers {
				c := s.Member(s.Peers[0], p).Contribution
				if slotNumber > 0 && (c == nil || c.Slot != uint64(slotNumber) || c.Steps != want ||
					c.Assigned != want) {
					t.Errorf("host %d, slot %d: %+v, want %d steps", p.Host, slotNumber, c, want)
				}
			}
		}
		if m := s.Member(s.Peers[0], s.Peers[1]); m.Assigned != 4 {
			t.Errorf("%d steps are asked for in slot 5, want 4", m.Assigned)
		}
		s.Finish(time.Minute, s.Peers...)
	})
}
