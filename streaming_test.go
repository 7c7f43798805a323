package p2pdiloco

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"
)

// streamer is a bowl whose model has layers, and which remembers what its live parameters were before each of its runs and what was
// measured.
type streamer struct {
	bowl
	tokens   uint64 // a step
	lives    map[place][]float32
	measured map[uint64][]float32 // by slot
	held     func() uint64        // slot of the anchor that is measured
	moved    int                  // elements that were loaded
	at       place                // that it has trained to
	landed   map[uint64]uint64    // inner steps of a slot after which the one before landed
}

// place is a point of a run.
type place struct{ slot, done uint64 }

func newStreamer(host int) *streamer {
	return &streamer{
		bowl:   bowl{target: float32(host), pace: 10 * time.Millisecond},
		tokens: uint64(3 + host), lives: make(map[place][]float32), measured: make(map[uint64][]float32),
		landed: make(map[uint64]uint64),
	}
}

// Layout has layers that do not lie in the order of their numbers, and an odd number of elements.
func (l *streamer) Layout() Layout {
	return Layout{
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
	return l.bowl.Load(ctx, x)
}

// loaded notes that so many elements were. What is loaded first after a border has landed; later, at the next one, the anchor is measured.
func (l *streamer) loaded(elements int) {
	l.moved += elements
	if _, ok := l.landed[l.at.slot]; !ok {
		l.landed[l.at.slot] = l.at.done
	}
}

func (l *streamer) Train(ctx context.Context, task Task) (Stats, error) {
	l.lives[place{task.Slot, task.Done}] = slices.Clone(l.x)
	stats, err := l.bowl.Train(ctx, task)
	stats.Tokens = l.tokens * uint64(stats.Steps)
	l.at = place{task.Slot, task.Done + uint64(stats.Steps)}
	return stats, err
}

func (l *streamer) Evaluate(context.Context) (float64, error) {
	l.measured[l.held()] = slices.Clone(l.x)
	return 1, nil
}

// divided is a streamer that moves parts of its parameters.
type divided struct{ *streamer }

func (d divided) LoadRange(_ context.Context, begin int, src []float32) error {
	d.loaded(copy(d.x[begin:], src))
	return nil
}

func (d divided) ExportRange(_ context.Context, begin int, dst []float32) error {
	copy(dst, d.x[begin:])
	return nil
}

// mute is one that says it cannot.
type mute struct{ *streamer }

func (mute) LoadRange(context.Context, int, []float32) error   { return errors.ErrUnsupported }
func (mute) ExportRange(context.Context, int, []float32) error { return errors.ErrUnsupported }

func streamSpec(rounds, startPeers, fragments uint64) Spec {
	spec := simSpec(rounds, startPeers)
	spec.Mode, spec.Fragments = ModeStreaming, fragments
	return spec
}

// streaming makes the peers streamer trainers: of each way in which parameters are moved one, as long as there are peers.
func (s *swarm) streaming() map[PeerID]*streamer {
	all := make(map[PeerID]*streamer)
	for i, p := range s.peers {
		l := newStreamer(p.host)
		l.held = func() uint64 { return p.node.Load().held }
		switch i % 3 {
		case 0:
			p.trainer = l
		case 1:
			p.trainer = divided{l}
		case 2:
			p.trainer = mute{l}
		}
		all[s.id(p)] = l
	}
	return all
}

// What comes out is a plain sequential replay of the equations, bit for bit: all anchors, and all live parameters before and after each slot
// has landed.
func TestStreamingIsItsEquations(t *testing.T) {
	for _, c := range []struct {
		fragments, steps uint64
		delay, alpha     string
		order            string
	}{
		{1, 10, "0", "0", OrderStrided},
		{1, 10, "4", "0.5", OrderStrided},
		{2, 10, "5", "0", OrderStrided},
		{2, 9, "2", "0.5", OrderStrided},
		{3, 10, "0", "0.5", OrderSequential},
		{3, 10, "3", "0", OrderStrided},
		{4, 10, "1", "0", OrderStrided},
		{4, 11, "2", "0.5", OrderStrided},
		{4, 8, "2", "0", OrderSequential},
	} {
		t.Run(fmt.Sprintf("P=%d,H=%d,tau=%s,alpha=%s,%s", c.fragments, c.steps, c.delay, c.alpha, c.order), func(t *testing.T) {
			spec := streamSpec(3, 3, c.fragments)
			spec.InnerSteps, spec.FragmentDelay, spec.FragmentAlpha, spec.FragmentOrder = c.steps, c.delay, c.alpha, c.order
			spec.Aggregator, spec.Clip = "mean", "off"
			inSim(t, 10*time.Millisecond, spec, 3, func(s *swarm) {
				trainers := s.streaming()
				s.start(s.peers...)
				s.finish(2*time.Minute, s.peers...)
				r := newReplay(s, trainers)
				for slotNumber := uint64(1); slotNumber <= r.spec.LastSlot(); slotNumber++ {
					r.slot(t, slotNumber)
				}
				r.end(t)
			})
		})
	}
}

// replayed is mode streaming by hand: all peers one after the other, and no more than its equations.
type replayed struct {
	spec     Spec
	s        *swarm
	trainers map[PeerID]*streamer
	theta, v []float32
	live     map[PeerID]*bowl
	h        byHand
}

func newReplay(s *swarm, trainers map[PeerID]*streamer) *replayed {
	r := &replayed{
		s: s, trainers: trainers, live: make(map[PeerID]*bowl), h: byHand{lr: 0.7, mu: 0.6, nesterov: true},
	}
	for id, l := range trainers {
		spec := s.spec
		spec.Layout = l.Layout()
		r.spec = spec.Settled()
		b := &bowl{target: l.target, x: make([]float32, spec.Layout.Elements())}
		_ = b.Init(s.t.Context(), b.x)
		r.live[id], r.theta = b, slices.Clone(b.x)
	}
	r.v = make([]float32, len(r.theta))
	return r
}

func (r *replayed) each(f func(id PeerID, b *bowl)) {
	for id, b := range r.live {
		f(id, b)
	}
}

// ranges are those of a slot's fragment.
func (r *replayed) indices(slotNumber uint64) (all []int) {
	for _, f := range r.spec.fragments()[r.spec.FragmentOf(slotNumber)].Ranges {
		for j := f.Begin; j < f.End; j++ {
			all = append(all, int(j))
		}
	}
	return all
}

// slot is a slot's inner steps, in whose midst the one before lands, and its outer step.
func (r *replayed) slot(t *testing.T, slotNumber uint64) {
	H, P := r.spec.InnerSteps, r.spec.Fragments
	i := (slotNumber - 1) % P
	todo := int((i+1)*H/P) - int(i*H/P)
	r.each(func(id PeerID, b *bowl) {
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

// lands is after how many inner steps of a slot the one before has landed on a peer: tau, or as many more as it trained meanwhile.
func (r *replayed) lands(t *testing.T, id PeerID, slotNumber uint64, todo int) int {
	t.Helper()
	delay, _ := strconv.Atoi(r.spec.FragmentDelay)
	landed, ok := r.trainers[id].landed[slotNumber]
	if !ok || delay == 0 { // a loop of its own, which waits; or everybody does
		return delay
	}
	if int(landed) < delay || int(landed) > todo {
		t.Fatalf("host %d: slot %d landed %d inner steps after its border, of %d, tau being %d", r.s.byID(id).host, slotNumber-1, landed, todo, delay)
	}
	return int(landed)
}

// train does inner steps of a peer.
func (r *replayed) train(t *testing.T, id PeerID, b *bowl, at place, steps int) {
	t.Helper()
	if steps > 0 {
		same(t, fmt.Sprintf("host %d: live parameters at %+v", r.s.byID(id).host, at), r.trainers[id].lives[at], b.x)
	}
	for range steps {
		b.step()
	}
}

// land mixes a slot's fragment of the anchor into the live parameters.
func (r *replayed) land(slotNumber uint64, b *bowl) {
	alpha := r.spec.float(r.spec.FragmentAlpha)
	for _, j := range r.indices(slotNumber) {
		b.x[j] = float32(alpha*b.x[j]) + float32((1-alpha)*r.theta[j])
	}
}

// mean is what the contributors to a slot have moved its fragment by, weighted by the tokens behind it.
func (r *replayed) mean(t *testing.T, slotNumber uint64) []float32 {
	contributors, total := r.s.contributors(slotNumber), 0.0
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
			g[j] += float32(scale * (r.theta[j] - r.live[id].x[j]))
		}
	}
	return g
}

func (r *replayed) measured(t *testing.T, slotNumber uint64) {
	t.Helper()
	r.each(func(id PeerID, _ *bowl) {
		if len(r.trainers[id].measured) == 0 {
			return // a loop of its own
		}
		same(t, fmt.Sprintf("host %d: anchor %d", r.s.byID(id).host, slotNumber), r.trainers[id].measured[slotNumber], r.theta)
	})
}

// end checks what the trainers are left with.
func (r *replayed) end(t *testing.T) {
	r.measured(t, r.spec.LastSlot())
	r.each(func(id PeerID, _ *bowl) {
		same(t, fmt.Sprintf("host %d: what it is left with", r.s.byID(id).host), r.trainers[id].x, r.theta)
	})
}

// A slot that takes longer than tau lands as soon as it is there, and not at the next border only: here it takes some 100 ms, tau 40 ms, and what
// lies between two borders 300 ms.
func TestALateSlotLandsLaterInTheStream(t *testing.T) {
	spec := streamSpec(5, 3, 2)
	spec.InnerSteps, spec.FragmentDelay = 60, "4"
	inSim(t, 10*time.Millisecond, spec, 3, func(s *swarm) {
		trainers := s.streaming()
		s.start(s.peers...)
		s.finish(2*time.Minute, s.peers...)
		for _, p := range s.peers {
			for slotNumber, landed := range trainers[s.id(p)].landed {
				if slotNumber > 1 && (landed < 5 || landed > 20) {
					t.Errorf("host %d: the slot before %d landed after %d inner steps", p.host, slotNumber, landed)
				}
			}
		}
	})
}

// A record says how many inner steps are behind a contribution: all from border to border, though a slot has landed in their midst. So many the
// run's pace asks for. One of the peers is a loop of its own.
func TestStepsBehindAContributionToTheStream(t *testing.T) {
	spec := streamSpec(3, 2, 3)
	spec.InnerSteps, spec.FragmentDelay, spec.MinPeers = 11, "2", 2
	inSim(t, 10*time.Millisecond, spec, 2, func(s *swarm) {
		s.streaming()
		s.ownLoops(s.peers[:1], streamed)
		s.start(s.peers...)
		for slotNumber, want := range []uint32{1: 3, 2: 4, 3: 4, 4: 3} {
			s.reach(uint64(slotNumber), s.peers...)
			for _, p := range s.peers {
				c := s.member(s.peers[0], p).Contribution
				if slotNumber > 0 && (c == nil || c.Slot != uint64(slotNumber) || c.Steps != want || c.Assigned != want) {
					t.Errorf("host %d, slot %d: %+v, want %d steps", p.host, slotNumber, c, want)
				}
			}
		}
		if m := s.member(s.peers[0], s.peers[1]); m.Assigned != 4 {
			t.Errorf("%d steps are asked for in slot 5, want 4", m.Assigned)
		}
		s.finish(time.Minute, s.peers...)
	})
}
