package nodetest

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
)

// Stub is a trainer that takes time and does nothing else. The tokens that it says it has processed
// are the milliseconds of it, so that a contribution's weight says how much is in it.
type Stub struct {
	// of one inner step, but for a tenth more or less, drawn anew for every round
	Step time.Duration
	Size uint64 // elements
	Rand *rand.Rand

	Mu struct {
		sync.Mutex
		X     []float32
		First time.Time     // inner step
		Now   time.Time     // since when it is in them; zero if it is not
		Busy  time.Duration // in them
	}
}

// NewStub makes a trainer. Its inner steps take a given time and change a model of a given size.
func NewStub(step time.Duration, size, seed uint64) *Stub {
	return &Stub{Step: step, Size: size, Rand: rand.New(rand.NewPCG(seed, 2))}
}

// Layout returns the layout of the stub's model.
func (t *Stub) Layout() p2pdiloco.Layout {
	return p2pdiloco.Layout{{Name: "x", Shape: []uint64{t.Size}}}
}

// Init implements trainer.Trainer.
func (t *Stub) Init(context.Context, []float32) error { return nil }

// Load implements trainer.Trainer.
func (t *Stub) Load(_ context.Context, start []float32) error {
	t.Mu.Lock()
	defer t.Mu.Unlock()
	t.Mu.X = append(t.Mu.X[:0], start...)
	return nil
}

// Train implements trainer.Trainer.
func (t *Stub) Train(ctx context.Context, task p2pdiloco.Task) (p2pdiloco.Stats, error) {
	t.Mu.Lock()
	if t.Mu.First.IsZero() {
		t.Mu.First = time.Now()
	}
	pace := time.Duration(float64(t.Step) * (0.9 + 0.2*t.Rand.Float64()))
	began := time.Now()
	t.Mu.Now = began
	t.Mu.Unlock()
	defer t.Trained(began)
	for done := range task.Steps {
		select {
		case <-ctx.Done():
			return p2pdiloco.Stats{}, ctx.Err()
		case <-time.After(pace):
		}
		task.Report(done + 1)
	}
	t.Mu.Lock()
	defer t.Mu.Unlock()
	t.Mu.X[task.Slot%t.Size] += 1e-3 // no two pseudo-gradients are alike
	spent := time.Since(began)
	return p2pdiloco.Stats{Steps: task.Steps, Tokens: uint64(spent.Milliseconds()), Elapsed: spent}, nil
}

// Trained counts the time since training began.
func (t *Stub) Trained(began time.Time) {
	t.Mu.Lock()
	defer t.Mu.Unlock()
	t.Mu.Now = time.Time{}
	t.Mu.Busy += time.Since(began)
}

// Export implements trainer.Trainer.
func (t *Stub) Export(_ context.Context, dst []float32) error {
	t.Mu.Lock()
	defer t.Mu.Unlock()
	copy(dst, t.Mu.X)
	return nil
}

// Busy returns the time that was spent in inner steps.
func (t *Stub) Busy() time.Duration {
	t.Mu.Lock()
	defer t.Mu.Unlock()
	if t.Mu.Now.IsZero() {
		return t.Mu.Busy
	}
	return t.Mu.Busy + time.Since(t.Mu.Now)
}

// Started returns when the first inner step began.
func (t *Stub) Started() time.Time {
	t.Mu.Lock()
	defer t.Mu.Unlock()
	return t.Mu.First
}
