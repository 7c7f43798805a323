package attachtest

import (
	"context"
	"time"

	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// Toy is a model of two tensors that each inner step pulls to a target. Each element goes its own
// way, so a shard of it trains alone.
type Toy struct {
	Target float32
	Pace   time.Duration // of one inner step
	Spoil  func(task trainer.Task, live []float32)
	Live   []float32
}

// Layout is the model's.
func (*Toy) Layout() trainer.Layout {
	return trainer.Layout{{Name: "w", Shape: []uint64{24, 10}}, {Name: "b", Shape: []uint64{13}}}
}

// Init writes the initial parameters.
func (*Toy) Init(_ context.Context, dst []float32) error {
	for i := range dst {
		dst[i] = float32(i%7) / 3
	}
	return nil
}

// Load replaces the live parameters.
func (t *Toy) Load(_ context.Context, start []float32) error {
	t.Live = append(t.Live[:0], start...)
	return nil
}

// Export copies the live parameters.
func (t *Toy) Export(_ context.Context, dst []float32) error {
	copy(dst, t.Live)
	return nil
}

// Evaluate is the distance to the target.
func (t *Toy) Evaluate(context.Context) (loss float64, err error) {
	for _, x := range t.Live {
		loss += float64((x - t.Target) * (x - t.Target))
	}
	return loss, nil
}

// Train does inner steps.
func (t *Toy) Train(ctx context.Context, task trainer.Task) (trainer.Stats, error) {
	for step := range task.Steps {
		select {
		case <-ctx.Done():
			return trainer.Stats{}, ctx.Err()
		case <-time.After(t.Pace):
		}
		for i, x := range t.Live {
			t.Live[i] = x + float32(0.1*float32(t.Target-x))
		}
		task.Report(step + 1)
	}
	if t.Spoil != nil {
		t.Spoil(task, t.Live)
	}
	return trainer.Stats{Steps: task.Steps, Tokens: uint64(task.Steps), Loss: float64(t.Target)}, nil
}
