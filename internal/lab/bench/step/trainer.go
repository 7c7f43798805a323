package step

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// instant is a trainer that takes no time worth the name: its inner steps add noise.
type instant struct {
	elements uint64
	noise    []float32 // so that no compression makes a pseudo-gradient small
	x        []float32

	// are told when the parameters were loaded, and when the inner steps of a slot were done
	loaded  func(at time.Time)
	trained func(slot uint64, at time.Time)
}

func newInstant(elements, seed uint64) *instant {
	return &instant{elements: elements, noise: noise(elements, seed), x: make([]float32, elements)}
}

func noise(elements, seed uint64) []float32 {
	x, random := make([]float32, elements), rand.New(rand.NewPCG(seed, elements))
	for i := range x {
		x[i] = random.Float32() - .5
	}
	return x
}

// Layout implements trainer.Trainer.
func (t *instant) Layout() trainer.Layout { return layout(t.elements) }

// Init implements trainer.Trainer.
func (t *instant) Init(context.Context, []float32) error { return nil }

// Load implements trainer.Trainer.
func (t *instant) Load(_ context.Context, anchor []float32) error {
	copy(t.x, anchor)
	t.loaded(time.Now())
	return nil
}

// Train implements trainer.Trainer.
func (t *instant) Train(_ context.Context, task trainer.Task) (trainer.Stats, error) {
	scale := 1e-3 * float32(1+task.Slot%7)
	for i, n := range t.noise {
		t.x[i] += float32(scale * n)
	}
	t.trained(task.Slot, time.Now())
	return trainer.Stats{Steps: task.Steps, Tokens: uint64(task.Steps)}, nil
}

// Export implements trainer.Trainer.
func (t *instant) Export(_ context.Context, dst []float32) error { copy(dst, t.x); return nil }
