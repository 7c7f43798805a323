package p2pdiloco

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// stub is a trainer that takes time and does nothing else, and knows which of its time is in which pseudo-gradient.
type stub struct {
	step  time.Duration // of one inner step, but for a tenth more or less, drawn anew for every round
	size  uint64        // elements
	chaos *rand.Rand

	mu struct {
		sync.Mutex
		x     []float32
		first time.Time     // inner step
		now   time.Time     // since when it is in them; zero if it is not
		busy  time.Duration // in them
		since time.Duration // trained since the start that was loaded last
		steps uint64
		calls uint64                   // of Train
		spent map[uint64]time.Duration // what is in a contribution, by its weight: no two of a peer have one
	}
}

func newStub(step time.Duration, size, seed uint64) *stub {
	t := &stub{step: step, size: size, chaos: rand.New(rand.NewPCG(seed, 2))}
	t.mu.spent = make(map[uint64]time.Duration)
	return t
}

func (t *stub) Layout() Layout { return Layout{{Name: "x", Shape: []uint64{t.size}}} }

func (t *stub) Init(context.Context, []float32) error { return nil }

// Load starts anew: what was trained and not exported is lost.
func (t *stub) Load(_ context.Context, start []float32) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.x, t.mu.since = append(t.mu.x[:0], start...), 0
	return nil
}

func (t *stub) Train(ctx context.Context, task Task) (Stats, error) {
	t.mu.Lock()
	if t.mu.first.IsZero() {
		t.mu.first = time.Now()
	}
	t.mu.calls++
	tokens := uint64(task.Steps)<<20 + t.mu.calls
	pace := time.Duration(float64(t.step) * (0.9 + 0.2*t.chaos.Float64()))
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
	t.mu.steps = tokens
	t.mu.x[task.Slot%t.size] += 1e-3 // no two pseudo-gradients are alike
	return Stats{Steps: task.Steps, Samples: tokens, Tokens: tokens, Elapsed: time.Since(began)}, nil
}

func (t *stub) trained(began time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.now = time.Time{}
	t.mu.busy += time.Since(began)
	t.mu.since += time.Since(began)
}

func (t *stub) Export(_ context.Context, dst []float32) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	copy(dst, t.mu.x)
	t.mu.spent[t.mu.steps] = t.mu.since
	t.mu.since = 0
	return nil
}

// behind is the training that is in a contribution of a weight.
func (t *stub) behind(weight uint64) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.spent[weight]
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
