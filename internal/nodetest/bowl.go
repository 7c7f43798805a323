package nodetest

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
)

// Bowl is a trainer whose peers pull the parameters to targets of their own: easy to compute, and
// no two peers' gradients are alike.
type Bowl struct {
	Target float32
	Pace   time.Duration // of one inner step
	// is shown the result of every round, if set, and may change it
	Spoil func(task p2pdiloco.Task, x []float32)
	X     []float32
	Size  uint64 // elements; bowlElements if 0
	Parts bool   // it can be given parts of its parameters
	// the parameters begin as noise, which no compression makes small
	Noisy  bool
	Frozen atomic.Bool // its process is stopped
}

// BowlElements is the number of elements of the bowl's model.
const BowlElements = 5000

// Layout implements a trainer that brings its layout.
func (b *Bowl) Layout() p2pdiloco.Layout {
	return p2pdiloco.Layout{{Name: "x", Shape: []uint64{cmp.Or(b.Size, BowlElements)}}}
}

// Init implements trainer.Trainer.
func (b *Bowl) Init(_ context.Context, dst []float32) error {
	noise := rand.New(rand.NewPCG(1, 2))
	for i := range dst {
		if dst[i] = float32(i % 7); b.Noisy {
			dst[i] = noise.Float32()
		}
	}
	return nil
}

// Load implements trainer.Trainer.
func (b *Bowl) Load(_ context.Context, anchor []float32) error {
	b.X = append(b.X[:0], anchor...)
	return nil
}

// Export implements trainer.Trainer.
func (b *Bowl) Export(_ context.Context, dst []float32) error { copy(dst, b.X); return nil }

// LoadRange implements trainer.RangeTrainer.
func (b *Bowl) LoadRange(_ context.Context, begin int, src []float32) error {
	if !b.Parts {
		return errors.ErrUnsupported
	}
	copy(b.X[begin:], src)
	return nil
}

// ExportRange implements trainer.RangeTrainer.
func (b *Bowl) ExportRange(_ context.Context, begin int, dst []float32) error {
	if !b.Parts {
		return errors.ErrUnsupported
	}
	copy(dst, b.X[begin:])
	return nil
}

// Live returns its parameters.
func (b *Bowl) Live() []float32 { return b.X }

// Train implements trainer.Trainer.
func (b *Bowl) Train(ctx context.Context, task p2pdiloco.Task) (p2pdiloco.Stats, error) {
	for done := 0; done < task.Steps; {
		select {
		case <-ctx.Done():
			return p2pdiloco.Stats{}, ctx.Err()
		case <-time.After(b.Pace):
		}
		if !b.Frozen.Load() {
			b.Step()
			done++
		}
	}
	if b.Spoil != nil {
		b.Spoil(task, b.X)
	}
	return p2pdiloco.Stats{Steps: task.Steps, Tokens: uint64(task.Steps), Loss: float64(b.Target)}, nil
}

// Step does one inner step.
func (b *Bowl) Step() {
	for i := range b.X {
		b.X[i] += 0.1 * (b.Target - b.X[i])
	}
}
