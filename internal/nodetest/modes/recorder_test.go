package modes

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// recorder is a bowl whose model has layers, and which remembers what its live parameters were
// before each of its runs, what was measured, and when slots landed.
type recorder struct {
	nodetest.Bowl
	tokens   uint64 // a step
	late     uint64 // its inner steps for this slot never end
	lives    map[place][]float32
	measured map[uint64][]float32 // by round
	seen     []float32            // what was measured last
	moved    int                  // elements that were loaded
	at       place                // that it has trained to
	landed   map[uint64]uint64    // inner steps of a slot after which the one before landed
}

// place is a point of a run.
type place struct{ slot, done uint64 }

// Layout has layers that do not lie in the order of their numbers, and an odd number of elements.
func (*recorder) Layout() p2pdiloco.Layout {
	return p2pdiloco.Layout{
		{Name: "embed", Shape: []uint64{700}},
		{Name: "layers.2.w", Shape: []uint64{900}},
		{Name: "layers.0.w", Shape: []uint64{1100}},
		{Name: "layers.1.w", Shape: []uint64{1000}},
		{Name: "layers.3.w", Shape: []uint64{1001}},
		{Name: "head", Shape: []uint64{310}},
	}
}

// record makes a swarm's trainers recorders. In mode streaming their parameters are moved in one of
// three ways each: the second peer's in parts, the third one says that it moves none, and the first
// one does not know of parts.
func record(s *swarm) (all []*recorder) {
	for i, p := range s.Peers {
		r := &recorder{
			Bowl:   nodetest.Bowl{Target: float32(p.Host), Pace: 10 * time.Millisecond, Parts: i%3 == 1},
			tokens: uint64(3 + p.Host), lives: make(map[place][]float32), measured: make(map[uint64][]float32),
			landed: make(map[uint64]uint64),
		}
		p.OnEvent = func(e p2pdiloco.Event) { // right after Evaluate
			if e.Name == "trainer.stats" && r.seen != nil {
				r.measured[e.Fields["round"].(uint64)] = r.seen
			}
		}
		if p.Trainer = r; i%3 == 0 {
			p.Trainer = whole{r}
		}
		all = append(all, r)
	}
	return all
}

// whole is a trainer that does not know of parts.
type whole struct{ measuring }

type measuring interface {
	p2pdiloco.Trainer
	trainer.Evaluator
	trainer.Sampler
}

func (r *recorder) Load(ctx context.Context, x []float32) error {
	r.loaded(len(x))
	return r.Bowl.Load(ctx, x)
}

func (r *recorder) LoadRange(ctx context.Context, begin int, src []float32) error {
	if r.Parts {
		r.loaded(len(src))
	}
	return r.Bowl.LoadRange(ctx, begin, src)
}

// loaded notes that so many elements were. What is loaded first after a border has landed; later,
// at the next one, the anchor is measured.
func (r *recorder) loaded(elements int) {
	r.moved += elements
	if _, ok := r.landed[r.at.slot]; !ok {
		r.landed[r.at.slot] = r.at.done
	}
}

func (r *recorder) Train(ctx context.Context, task p2pdiloco.Task) (p2pdiloco.Stats, error) {
	r.lives[place{task.Slot, task.Done}] = slices.Clone(r.X)
	if task.Slot == r.late {
		<-ctx.Done()
		return p2pdiloco.Stats{}, ctx.Err()
	}
	stats, err := r.Bowl.Train(ctx, task)
	stats.Tokens = r.tokens * uint64(stats.Steps)
	r.at = place{task.Slot, task.Done + uint64(stats.Steps)}
	return stats, err
}

func (r *recorder) Evaluate(context.Context) (float64, error) {
	r.seen = slices.Clone(r.X)
	return 1, nil
}

// Sample shows which parameters are live.
func (r *recorder) Sample(context.Context, string) (string, error) { return digest(r.X), nil }

// digest tells vectors apart.
func digest(x []float32) string {
	sum := fnv.New64a()
	_ = binary.Write(sum, binary.LittleEndian, x) // it never fails
	return fmt.Sprintf("%x", sum.Sum(nil))
}

// asks has a peer's model asked again and again, and returns the answers by slot when the run is
// over.
func asks(s *swarm, p *peer) (answers func() map[uint64]string) {
	all, done := make(map[uint64]string), make(chan struct{})
	go func() {
		defer close(done)
		for p.Node.Load() == nil {
			time.Sleep(time.Millisecond)
		}
		for node := p.Node.Load(); ; {
			newest := node.Status().Slot
			a, err := node.Ask(context.Background(), "which?")
			if err != nil {
				if !errors.Is(err, p2pdiloco.ErrRunEnded) && !errors.Is(err, p2pdiloco.ErrClosed) {
					s.T.Errorf("host %d: %v", p.Host, err)
				}
				return
			}
			if a.Slot < newest {
				s.T.Errorf("host %d: slot %d was applied, and the answer is of %d", p.Host, newest, a.Slot)
			}
			all[a.Slot] = a.Text
		}
	}()
	return func() map[uint64]string {
		<-done
		return all
	}
}

// graded is one that exports pseudo-gradients itself.
type graded struct{ *recorder }

func (g graded) ExportGradient(_ context.Context, start, dst []float32, ready func(begin, end int) error) error {
	if !slices.Equal(start, g.lives[place{g.at.slot, 0}]) {
		return errors.New("the start is not what was loaded last")
	}
	return errors.Join(g.ExportGradientRange(context.Background(), 0, start, dst), ready(0, len(dst)))
}

func (g graded) ExportGradientRange(_ context.Context, begin int, start, dst []float32) error {
	for i := range dst {
		dst[i] = start[i] - g.X[begin+i]
	}
	return nil
}

// streamed is a program with a loop of its own in mode streaming.
func (r *recorder) streamed(ctx context.Context, n *p2pdiloco.Node) error {
	params := make([]float32, n.Spec().Layout.Elements())
	_, err := n.Anchor(ctx, params)
	for err == nil {
		task, _ := n.Task()
		r.descend(params, place{task.Slot, task.Done}, task.Steps)
		var round *p2pdiloco.Round
		if round, err = n.Begin(params, (task.Done+uint64(task.Steps))*r.tokens); err != nil {
			return err
		}
		if task.Slot < n.Spec().LastSlot() {
			r.descend(params, place{task.Slot + 1, 0}, task.Delay)
		}
		_, err = round.Finish(ctx, params)
	}
	return nodetest.Ended(err)
}

// descend is inner steps of such a program.
func (r *recorder) descend(params []float32, at place, steps int) {
	if steps > 0 {
		r.lives[at] = slices.Clone(params)
	}
	r.X = params
	for range steps {
		time.Sleep(r.Pace)
		r.Step()
	}
}

// loops makes a peer such a program, without a Trainer.
func (r *recorder) loops(p *peer) {
	p.Config = func(c *p2pdiloco.Config) {
		c.Trainer, c.Spec.Layout = nil, r.Layout()
		c.Init = func(dst []float32) error { return r.Init(context.Background(), dst) }
	}
	p.Main = r.streamed
}
