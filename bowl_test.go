package p2pdiloco

import (
	"cmp"
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// bowl is a trainer whose peers pull the parameters to targets of their own: easy to compute, and no two peers' gradients are alike.
type bowl struct {
	target float32
	pace   time.Duration                // of one inner step
	spoil  func(task Task, x []float32) // is shown the result of every round, if set, and may change it
	x      []float32
	size   uint64                        // elements; bowlElements if 0
	noisy  bool                          // the parameters begin as noise, which no compression makes small
	frozen atomic.Pointer[chan struct{}] // set while its process is stopped; closed when it goes on
}

const bowlElements = 5000

func bowlLayout() Layout { return (&bowl{}).Layout() }

func (b *bowl) Layout() Layout {
	return Layout{{Name: "x", Shape: []uint64{cmp.Or(b.size, bowlElements)}}}
}

func (b *bowl) Init(_ context.Context, dst []float32) error {
	noise := rand.New(rand.NewPCG(1, 2))
	for i := range dst {
		if dst[i] = float32(i % 7); b.noisy {
			dst[i] = noise.Float32()
		}
	}
	return nil
}

func (b *bowl) Load(_ context.Context, anchor []float32) error {
	b.x = append(b.x[:0], anchor...)
	return nil
}

func (b *bowl) Export(_ context.Context, dst []float32) error { copy(dst, b.x); return nil }

func (b *bowl) Train(ctx context.Context, task Task) (Stats, error) {
	for range task.Steps {
		select {
		case <-ctx.Done():
			return Stats{}, ctx.Err()
		case <-time.After(b.pace):
		}
		if stopped := b.frozen.Load(); stopped != nil {
			select {
			case <-ctx.Done():
				return Stats{}, ctx.Err()
			case <-*stopped:
			}
		}
		b.step()
	}
	if b.spoil != nil {
		b.spoil(task, b.x)
	}
	return Stats{Steps: task.Steps, Tokens: uint64(task.Steps), Loss: float64(b.target)}, nil
}

func (b *bowl) step() {
	for i := range b.x {
		b.x[i] += 0.1 * (b.target - b.x[i])
	}
}
