package p2pdiloco

import (
	"context"
	"errors"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// What mode streaming asks of a Trainer. Its live parameters are its own all the time, so parts of them go back and forth: by
// RangeTrainer, or inside the whole vector where a trainer cannot do that.

// refresh brings the live parameters to what was applied while nothing is under way, and measures the anchor after each whole round.
func (n *Node) refresh(ctx context.Context, t Trainer) error {
	if n.flight == nil {
		if err := n.takeIn(ctx, t); err != nil {
			return err
		}
	}
	at := n.held
	if at%n.spec.Fragments != 0 || n.measured != nil && *n.measured == at {
		return nil
	}
	n.keepTrainer(ctx, at)
	n.measured = &at
	if _, ok := n.evaluator(t); !ok {
		return n.measure(ctx, t, at)
	}
	return n.aside(ctx, t, func() error { return n.measure(ctx, t, at) })
}

// aside has f find the anchor in the live parameters' place.
func (n *Node) aside(ctx context.Context, t Trainer, f func() error) error {
	if err := t.Export(ctx, n.local); err != nil {
		return &TrainerError{"export", err}
	}
	if err := t.Load(ctx, n.start); err != nil {
		return &TrainerError{"load", err}
	}
	if err := f(); err != nil {
		return err
	}
	return n.hand(ctx, t, n.everything())
}

// landIn waits for the slot under way in the midst of a task's inner steps, and takes it in.
func (n *Node) landIn(ctx context.Context, t Trainer, task Task) error {
	n.idle.begin()
	err := n.land(ctx)
	n.idle.end()
	if err == nil {
		err = n.takeIn(ctx, t)
	}
	if err == nil && n.held+1 != task.Slot {
		err = errSlotClosed // or the one before is open still
	}
	return err
}

// takeIn lands the slots that were applied since the last time.
func (n *Node) takeIn(ctx context.Context, t Trainer) error {
	slots, all := n.follow()
	if all {
		if err := t.Load(ctx, n.start); err != nil {
			return &TrainerError{"load", err}
		}
		return nil
	}
	err := n.mixIn(ctx, t, slots)
	if err != nil && n.divides(t) && errors.Is(err, errors.ErrUnsupported) { // asked for the first time: nothing has moved yet
		n.coarse = true
		err = n.mixIn(ctx, t, slots)
	}
	return err
}

// mixIn lands slots in the trainer's live parameters.
func (n *Node) mixIn(ctx context.Context, t Trainer, slots []uint64) error {
	var ranges, mixed []slot.Range
	for _, s := range slots {
		ranges = append(ranges, n.fragment(s).Ranges...)
		if n.alpha(s) > 0 {
			mixed = append(mixed, n.fragment(s).Ranges...)
		}
	}
	if !n.divides(t) && len(ranges) > 0 {
		ranges = n.everything()
		mixed = ranges
	}
	if err := n.fetch(ctx, t, mixed); err != nil {
		return &TrainerError{"export", err}
	}
	n.mix(n.local, slots)
	return n.hand(ctx, t, ranges)
}

// divides says whether parts of the live parameters can be had.
func (n *Node) divides(t Trainer) bool {
	_, ok := t.(RangeTrainer)
	return ok && !n.coarse
}

func (n *Node) everything() []slot.Range { return []slot.Range{{End: uint64(len(n.local))}} }

// fetch copies ranges of the live parameters, or all of them, to n.local.
func (n *Node) fetch(ctx context.Context, t Trainer, ranges []slot.Range) error {
	for i, r := range ranges {
		if !n.divides(t) || r.Len() == uint64(len(n.local)) {
			return t.Export(ctx, n.local)
		}
		err := t.(RangeTrainer).ExportRange(ctx, int(r.Begin), n.local[r.Begin:r.End])
		if i == 0 && errors.Is(err, errors.ErrUnsupported) {
			n.coarse = true
			return t.Export(ctx, n.local)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// hand loads ranges of n.local. They pass through n.start, which is where a trainer with vectors of its own takes them from.
func (n *Node) hand(ctx context.Context, t Trainer, ranges []slot.Range) error {
	for _, r := range ranges {
		start, local := n.start[r.Begin:r.End], n.local[r.Begin:r.End]
		swap(start, local)
		var err error
		if len(start) == len(n.start) {
			err = t.Load(ctx, start)
		} else {
			err = t.(RangeTrainer).LoadRange(ctx, int(r.Begin), start)
		}
		copy(start, local)
		if err != nil {
			return &TrainerError{"load", err}
		}
	}
	return nil
}

func swap(a, b []float32) {
	for j, v := range a {
		a[j], b[j] = b[j], v
	}
}
