package modes

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
)

// witness is a bowl that remembers what it was given and what it made of it.
type witness struct {
	nodetest.Bowl
	tokens  uint64
	late    uint64               // its inner steps for this slot never end
	starts  map[uint64][]float32 // by the slot trained for
	locals  map[uint64][]float32 // of those that were done
	anchors map[uint64][]float32 // by slot
	loaded  []float32
	seen    []float32 // the newest that was measured
}

func newWitness(host int) *witness {
	return &witness{
		Bowl: nodetest.Bowl{Target: float32(host), Pace: 10 * time.Millisecond}, tokens: uint64(20 + host),
		starts: make(map[uint64][]float32), locals: make(map[uint64][]float32), anchors: make(map[uint64][]float32),
	}
}

func (w *witness) Load(ctx context.Context, x []float32) error {
	w.loaded = slices.Clone(x)
	return w.Bowl.Load(ctx, x)
}

func (w *witness) Evaluate(context.Context) (float64, error) {
	w.seen = w.loaded
	return 1, nil
}

// watch has a peer's witness note which slot's anchor it measures: the event says so, right after
// Evaluate.
func watch(p *nodetest.Peer, w *witness, slots uint64) {
	p.OnEvent = func(e p2pdiloco.Event) {
		if e.Name == "trainer.stats" {
			w.anchors[slots*e.Fields["round"].(uint64)] = w.seen
		}
	}
}

func (w *witness) Train(ctx context.Context, task p2pdiloco.Task) (p2pdiloco.Stats, error) {
	w.starts[task.Slot] = w.loaded
	if task.Slot == w.late {
		<-ctx.Done()
		return p2pdiloco.Stats{}, ctx.Err()
	}
	stats, err := w.Bowl.Train(ctx, task)
	if err == nil {
		w.locals[task.Slot] = slices.Clone(w.X)
	}
	stats.Tokens = w.tokens
	return stats, err
}

// exporting is a witness that exports pseudo-gradients itself.
type exporting struct{ *witness }

func (w exporting) ExportGradient(_ context.Context, start, dst []float32, ready func(begin, end int) error) error {
	if !slices.Equal(start, w.loaded) {
		return fmt.Errorf("the start is not what was loaded last")
	}
	for i := range dst {
		dst[i] = start[i] - w.X[i]
	}
	return ready(0, len(dst))
}

// byHand are the equations of the modes and of the mean, one element at a time.
type byHand struct {
	lr, mu   float32
	nesterov bool
	codec    codec.Codec                    // nil: nothing is lost
	debt     map[p2pdiloco.PeerID][]float32 // of what it loses, by peer
}

func (h byHand) step(p, v, g []float32, lr float32) {
	for j := range p {
		v[j] = float32(h.mu*v[j]) + g[j]
		d := v[j]
		if h.nesterov {
			d = g[j] + float32(h.mu*v[j])
		}
		p[j] -= float32(lr * d)
	}
}

func minus(a, b []float32) []float32 {
	d := make([]float32, len(a))
	for j := range d {
		d[j] = a[j] - b[j]
	}
	return d
}

// What comes out is a plain sequential replay of the equations, bit for bit: the anchors of all
// peers, and the private starts. One peer misses a slot, and one exports its pseudo-gradients
// itself.
func TestOverlappedModesAreTheirEquations(t *testing.T) {
	for _, mode := range []string{p2pdiloco.ModeSync, p2pdiloco.ModeDelayed, p2pdiloco.ModeEager} {
		for _, outer := range []string{"nesterov", "sgd"} {
			t.Run(mode+"/"+outer, func(t *testing.T) {
				const peers, rounds = 4, 6
				spec := nodetest.Spec(rounds, peers)
				spec.Mode, spec.Outer, spec.Aggregator, spec.Clip = mode, outer, "mean", "off"
				nodetest.Run(t, 10*time.Millisecond, spec, peers, func(s *nodetest.Swarm) {
					witnesses := make(map[p2pdiloco.PeerID]*witness)
					for i, p := range s.Peers {
						w := newWitness(p.Host)
						watch(p, w, 1)
						if p.Trainer = w; i == 1 {
							p.Trainer = exporting{w}
						}
						witnesses[s.ID(p)] = w
					}
					witnesses[s.ID(s.Peers[2])].late = 3
					s.Start(s.Peers...)
					s.Finish(2*time.Minute, s.Peers...)
					replay(t, s, witnesses, byHand{lr: 0.7, mu: 0.6, nesterov: outer == "nesterov"})
				})
			})
		}
	}
}

// So it is with lossy codecs, with error feedback on every peer: the one that misses a slot owes
// what it owed before.
func TestModesWithLossyCodecsAreTheirEquations(t *testing.T) {
	for name, mode := range map[string]string{
		codec.BF16: p2pdiloco.ModeSync, codec.Int8: p2pdiloco.ModeDelayed, codec.Int4: p2pdiloco.ModeEager,
		codec.Sign: p2pdiloco.ModeDelayed,
	} {
		t.Run(name+"/"+mode, func(t *testing.T) {
			const peers, rounds = 3, 6
			spec := nodetest.Spec(rounds, peers)
			spec.Mode, spec.Codec, spec.Aggregator, spec.Clip = mode, name, "mean", "off"
			nodetest.Run(t, 10*time.Millisecond, spec, peers, func(s *nodetest.Swarm) {
				witnesses := make(map[p2pdiloco.PeerID]*witness)
				for _, p := range s.Peers {
					w := newWitness(p.Host)
					watch(p, w, 1)
					w.Spoil = func(task p2pdiloco.Task, x []float32) { // no two elements alike
						for j := range x {
							x[j] += float32((j*7919+int(task.Slot))%1000) / 500
						}
					}
					p.Trainer, witnesses[s.ID(p)] = w, w
				}
				witnesses[s.ID(s.Peers[2])].late = 3
				s.Start(s.Peers...)
				s.Finish(2*time.Minute, s.Peers...)
				c, err := codec.New(name)
				if err != nil {
					t.Fatal(err)
				}
				replay(t, s, witnesses, byHand{
					lr: 0.7, mu: 0.6, nesterov: true, codec: c,
					debt: make(map[p2pdiloco.PeerID][]float32),
				})
			})
		})
	}
}

func replay(t *testing.T, s *nodetest.Swarm, witnesses map[p2pdiloco.PeerID]*witness, h byHand) {
	t.Helper()
	theta := make([]float32, nodetest.BowlElements)
	_ = (&nodetest.Bowl{}).Init(t.Context(), theta)
	v := make([]float32, nodetest.BowlElements)
	own := make(map[p2pdiloco.PeerID][]float32) // w of eager
	for id := range witnesses {
		own[id] = make([]float32, nodetest.BowlElements)
	}
	expect := make(map[p2pdiloco.PeerID][]float32) // where a peer must start
	for slotNumber := range s.Spec.Rounds + 1 {
		for id, w := range witnesses {
			if w.late > 0 && s.Spec.Overlaps() && slotNumber == w.late-1 {
				continue // it waited for slot late in vain, and went on from there
			}
			nodetest.SameVectors(
				t,
				fmt.Sprintf("host %d: anchor %d", s.ByID(id).Host, slotNumber),
				w.anchors[slotNumber],
				theta,
			)
		}
		if slotNumber == s.Spec.Rounds {
			break
		}
		round := slotNumber + 1
		before := slices.Clone(theta)
		contributors := s.Contributors(round)
		if want := len(witnesses) - map[bool]int{true: 1}[round == 3]; len(contributors) != want {
			t.Fatalf("slot %d has %d contributors, want %d", round, len(contributors), want)
		}
		h.step(theta, v, h.mean(witnesses, contributors, round), h.lr)
		for id, w := range witnesses {
			if expect[id] == nil {
				expect[id] = before
			}
			nodetest.SameVectors(
				t,
				fmt.Sprintf("host %d: start for slot %d", s.ByID(id).Host, round),
				w.starts[round],
				expect[id],
			)
			expect[id] = nil
			if w.locals[round] == nil || s.Spec.Mode == p2pdiloco.ModeSync {
				continue
			}
			d, start := minus(w.starts[round], w.locals[round]), slices.Clone(before)
			if s.Spec.Mode == p2pdiloco.ModeDelayed {
				start = minus(start, d)
			} else {
				h.step(start, own[id], d, h.lr/float32(len(witnesses)))
			}
			expect[id] = start
		}
	}
}

// mean is the aggregated pseudo-gradient of a round.
func (h byHand) mean(witnesses map[p2pdiloco.PeerID]*witness, contributors []p2pdiloco.PeerID, round uint64) []float32 {
	total := 0.0
	for _, id := range contributors {
		total += float64(witnesses[id].tokens)
	}
	g := make([]float32, nodetest.BowlElements)
	for _, id := range contributors {
		w := witnesses[id]
		scale := float32(float64(w.tokens) / total)
		for j, x := range h.sent(id, minus(w.starts[round], w.locals[round])) {
			g[j] += float32(scale * x)
		}
	}
	if h.codec != nil {
		g = throughCodec(codec.Outcome(h.codec), g)
	}
	return g
}

// sent is what others decode of a peer's pseudo-gradient.
func (h byHand) sent(id p2pdiloco.PeerID, d []float32) []float32 {
	if h.codec == nil {
		return d
	}
	x := slices.Clone(d)
	if e := h.debt[id]; e != nil {
		for j := range x {
			x[j] = e[j] + d[j]
		}
	} else {
		h.debt[id] = make([]float32, len(d))
	}
	x = throughCodec(h.codec, x)
	for j := range x {
		h.debt[id][j] += d[j] - x[j]
	}
	return x
}

func throughCodec(c codec.Codec, x []float32) []float32 {
	out := make([]float32, len(x))
	if err := c.Decode(out, c.Append(nil, x)); err != nil {
		panic(err)
	}
	return out
}
