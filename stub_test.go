package p2pdiloco

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// stub is a trainer that takes time and does nothing else. The tokens that it says it has processed are the milliseconds of it, so that a
// contribution's weight says how much is in it.
type stub struct {
	step time.Duration // of one inner step, but for a tenth more or less, drawn anew for every round
	size uint64        // elements
	rand *rand.Rand

	mu struct {
		sync.Mutex
		x     []float32
		first time.Time     // inner step
		now   time.Time     // since when it is in them; zero if it is not
		busy  time.Duration // in them
	}
}

func newStub(step time.Duration, size, seed uint64) *stub {
	return &stub{step: step, size: size, rand: rand.New(rand.NewPCG(seed, 2))}
}

func (t *stub) Layout() Layout { return Layout{{Name: "x", Shape: []uint64{t.size}}} }

func (t *stub) Init(context.Context, []float32) error { return nil }

func (t *stub) Load(_ context.Context, start []float32) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.x = append(t.mu.x[:0], start...)
	return nil
}

func (t *stub) Train(ctx context.Context, task Task) (Stats, error) {
	t.mu.Lock()
	if t.mu.first.IsZero() {
		t.mu.first = time.Now()
	}
	pace := time.Duration(float64(t.step) * (0.9 + 0.2*t.rand.Float64()))
	began := time.Now()
	t.mu.now = began
	t.mu.Unlock()
	defer t.trained(began)
	for done := range task.Steps {
		select {
		case <-ctx.Done():
			return Stats{}, ctx.Err()
		case <-time.After(pace):
		}
		task.Report(done + 1)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.x[task.Slot%t.size] += 1e-3 // no two pseudo-gradients are alike
	spent := time.Since(began)
	return Stats{Steps: task.Steps, Tokens: uint64(spent.Milliseconds()), Elapsed: spent}, nil
}

func (t *stub) trained(began time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.now = time.Time{}
	t.mu.busy += time.Since(began)
}

func (t *stub) Export(_ context.Context, dst []float32) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	copy(dst, t.mu.x)
	return nil
}

func (t *stub) busy() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.now.IsZero() {
		return t.mu.busy
	}
	return t.mu.busy + time.Since(t.mu.now)
}

// started is when the first inner step began.
func (t *stub) started() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.first
}
