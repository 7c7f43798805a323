package p2pdiloco

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
)

// witness is a bowl that remembers what it was given and what it made of it.
type witness struct {
	bowl
	tokens  uint64
	late    uint64               // its inner steps for this slot never end
	starts  map[uint64][]float32 // by the slot trained for
	locals  map[uint64][]float32 // of those that were done
	anchors map[uint64][]float32 // by slot
	loaded  []float32
	at      func() uint64 // slot of the anchor that is measured
}

func newWitness(host int) *witness {
	return &witness{
		bowl: bowl{target: float32(host), pace: 10 * time.Millisecond}, tokens: uint64(20 + host),
		starts: make(map[uint64][]float32), locals: make(map[uint64][]float32), anchors: make(map[uint64][]float32),
	}
}

func (w *witness) Load(ctx context.Context, x []float32) error {
	w.loaded = slices.Clone(x)
	return w.bowl.Load(ctx, x)
}

func (w *witness) Evaluate(context.Context) (float64, error) {
	w.anchors[w.at()] = w.loaded
	return 1, nil
}

func (w *witness) Train(ctx context.Context, task Task) (Stats, error) {
	w.starts[task.Slot] = w.loaded
	if task.Slot == w.late {
		<-ctx.Done()
		return Stats{}, ctx.Err()
	}
	stats, err := w.bowl.Train(ctx, task)
	if err == nil {
		w.locals[task.Slot] = slices.Clone(w.x)
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
		dst[i] = start[i] - w.x[i]
	}
	return ready(0, len(dst))
}

// byHand are the equations of the modes and of the mean, one element at a time.
type byHand struct {
	lr, mu   float32
	nesterov bool
	codec    codec.Codec          // nil: nothing is lost
	debt     map[PeerID][]float32 // of what it loses, by peer
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

// What comes out is a plain sequential replay of the equations, bit for bit: the anchors of all peers, and the private starts. One peer misses a
// slot, and one exports its pseudo-gradients itself.
func TestOverlappedModesAreTheirEquations(t *testing.T) {
	for _, mode := range []string{ModeSync, ModeDelayed, ModeEager} {
		for _, outer := range []string{"nesterov", "sgd"} {
			t.Run(mode+"/"+outer, func(t *testing.T) {
				const peers, rounds = 4, 6
				spec := simSpec(rounds, peers)
				spec.Mode, spec.Outer, spec.Aggregator, spec.Clip = mode, outer, "mean", "off"
				inSim(t, 10*time.Millisecond, spec, peers, func(s *swarm) {
					witnesses := make(map[PeerID]*witness)
					for i, p := range s.peers {
						w := newWitness(p.host)
						w.at = func() uint64 { return p.node.Load().held }
						if p.trainer = w; i == 1 {
							p.trainer = exporting{w}
						}
						witnesses[s.id(p)] = w
					}
					witnesses[s.id(s.peers[2])].late = 3
					s.start(s.peers...)
					s.finish(2*time.Minute, s.peers...)
					replay(t, s, witnesses, byHand{lr: 0.7, mu: 0.6, nesterov: outer == "nesterov"})
				})
			})
		}
	}
}

// So it is with lossy codecs, with error feedback on every peer: the one that misses a slot owes what it owed before.
func TestModesWithLossyCodecsAreTheirEquations(t *testing.T) {
	for name, mode := range map[string]string{codec.BF16: ModeSync, codec.Int8: ModeDelayed, codec.Int4: ModeEager, codec.Sign: ModeDelayed} {
		t.Run(name+"/"+mode, func(t *testing.T) {
			const peers, rounds = 3, 6
			spec := simSpec(rounds, peers)
			spec.Mode, spec.Codec, spec.Aggregator, spec.Clip = mode, name, "mean", "off"
			inSim(t, 10*time.Millisecond, spec, peers, func(s *swarm) {
				witnesses := make(map[PeerID]*witness)
				for _, p := range s.peers {
					w := newWitness(p.host)
					w.at = func() uint64 { return p.node.Load().held }
					w.spoil = func(task Task, x []float32) { // no two elements alike
						for j := range x {
							x[j] += float32((j*7919+int(task.Slot))%1000) / 500
						}
					}
					p.trainer, witnesses[s.id(p)] = w, w
				}
				witnesses[s.id(s.peers[2])].late = 3
				s.start(s.peers...)
				s.finish(2*time.Minute, s.peers...)
				c, err := codec.New(name)
				if err != nil {
					t.Fatal(err)
				}
				replay(t, s, witnesses, byHand{lr: 0.7, mu: 0.6, nesterov: true, codec: c, debt: make(map[PeerID][]float32)})
			})
		})
	}
}

func replay(t *testing.T, s *swarm, witnesses map[PeerID]*witness, h byHand) {
	t.Helper()
	theta := make([]float32, bowlElements)
	_ = (&bowl{}).Init(t.Context(), theta)
	v := make([]float32, bowlElements)
	own := make(map[PeerID][]float32) // w of eager
	for id := range witnesses {
		own[id] = make([]float32, bowlElements)
	}
	expect := make(map[PeerID][]float32) // where a peer must start
	for slotNumber := range s.spec.Rounds + 1 {
		for id, w := range witnesses {
			if w.late > 0 && s.spec.Overlaps() && slotNumber == w.late-1 {
				continue // it waited for slot late in vain, and went on from there
			}
			same(t, fmt.Sprintf("host %d: anchor %d", s.byID(id).host, slotNumber), w.anchors[slotNumber], theta)
		}
		if slotNumber == s.spec.Rounds {
			break
		}
		round := slotNumber + 1
		before := slices.Clone(theta)
		contributors := s.contributors(round)
		if want := len(witnesses) - map[bool]int{true: 1}[round == 3]; len(contributors) != want {
			t.Fatalf("slot %d has %d contributors, want %d", round, len(contributors), want)
		}
		h.step(theta, v, h.mean(witnesses, contributors, round), h.lr)
		for id, w := range witnesses {
			if expect[id] == nil {
				expect[id] = before
			}
			same(t, fmt.Sprintf("host %d: start for slot %d", s.byID(id).host, round), w.starts[round], expect[id])
			expect[id] = nil
			if w.locals[round] == nil || s.spec.Mode == ModeSync {
				continue
			}
			d, start := minus(w.starts[round], w.locals[round]), slices.Clone(before)
			if s.spec.Mode == ModeDelayed {
				start = minus(start, d)
			} else {
				h.step(start, own[id], d, h.lr/float32(len(witnesses)))
			}
			expect[id] = start
		}
	}
}

// mean is the aggregated pseudo-gradient of a round.
func (h byHand) mean(witnesses map[PeerID]*witness, contributors []PeerID, round uint64) []float32 {
	total := 0.0
	for _, id := range contributors {
		total += float64(witnesses[id].tokens)
	}
	g := make([]float32, bowlElements)
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
func (h byHand) sent(id PeerID, d []float32) []float32 {
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

// contributors are those that the record of a slot lists, in its order.
func (s *swarm) contributors(slotNumber uint64) []PeerID {
	for _, p := range s.peers {
		for _, e := range p.events("slot.committed") {
			if e.Fields["slot"] == slotNumber {
				return e.Fields["contributors"].([]PeerID)
			}
		}
	}
	return nil
}

func same(t *testing.T, what string, got, want []float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d elements, want %d", what, len(got), len(want))
	}
	for j := range want {
		if math.Float32bits(got[j]) != math.Float32bits(want[j]) {
			t.Fatalf("%s: element %d is %v, want %v", what, j, got[j], want[j])
		}
	}
}
