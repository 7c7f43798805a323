package round

import (
	"context"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// live are the parameters that the inner steps change: a trainer's model (model.go), or the vector
// of a caller's own loop.
type live interface {
	// load replaces all of them by start.
	load(ctx context.Context, start []float32) error
	// change lets f change ranges of them in v.local, which holds the ranges of kept.
	change(ctx context.Context, v *vectors, ranges, kept []slot.Range, f func()) error
	// look measures the anchor of a slot, which is start, unless it was measured before. After that
	// the anchor is loaded if stay is set.
	look(ctx context.Context, slotNumber uint64, start []float32, stay bool) error
	// lookAside measures the anchor of a slot, which is v.start, unless it was measured before, and
	// leaves the live parameters as they are.
	lookAside(ctx context.Context, slotNumber uint64, v *vectors) error
}

// callersVector is what a caller's own loop passes to Anchor, Sync and Finish.
type callersVector []float32

func (c callersVector) load(_ context.Context, start []float32) error {
	copy(c, start)
	return nil
}

func (c callersVector) change(_ context.Context, v *vectors, ranges, kept []slot.Range, f func()) error {
	for _, r := range kept {
		copy(v.local[r.Begin:r.End], c[r.Begin:r.End])
	}
	f()
	for _, r := range ranges {
		copy(c[r.Begin:r.End], v.local[r.Begin:r.End])
	}
	return nil
}

func (c callersVector) look(_ context.Context, _ uint64, start []float32, stay bool) error {
	if stay {
		copy(c, start)
	}
	return nil
}

func (c callersVector) lookAside(context.Context, uint64, *vectors) error { return nil }
