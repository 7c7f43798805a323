package p2pdiloco

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/p2pdiloco/p2pdiloco/membership"
)

// tarryShare is the part of the time of a round's inner steps that mode async may wait for a slot, one in so many.
const tarryShare = 20

// tarry is what tells, in mode async, whether to wait a moment for the slot under way before the next inner steps start. A start that has the
// others' steps in it is worth more than that moment; and where all finish together and links are fast the slot is there at once. So a
// twentieth of the inner steps is waited for it where the newest reduction took no longer than that: not for who is slow, or only so long.
// Who is ahead of the others loses a little of its lead so, in each round, until it finds them at the border.
type tarry struct {
	phase     time.Duration // of the newest inner steps
	reduction atomic.Int64  // nanoseconds from the newest plan that was seen to its slot's end
}

// watch notes how long a slot's reduction takes, from when its plan was seen first. Two may be watched at a time: one that was given up,
// and the next.
func (t *tarry) watch(v membership.View, slotNumber uint64, planned *time.Time) {
	switch {
	case v.Plan != nil && v.Plan.Slot == slotNumber && planned.IsZero():
		*planned = time.Now()
	case v.AppliedSlot >= slotNumber && !planned.IsZero():
		t.reduction.Store(int64(time.Since(*planned)))
	}
}

// limit is how long to wait.
func (t *tarry) limit() time.Duration {
	if limit := t.phase / tarryShare; limit > time.Duration(t.reduction.Load()) {
		return limit
	}
	return 0
}

// tarries waits for the slot under way, no longer than tarry says. With a deadline all finish together anyway, and time is steps.
func (n *Node) tarries(ctx context.Context) error {
	limit := n.tarry.limit()
	if n.spec.Mode != ModeAsync || n.spec.Pace == PaceDeadline || n.flight == nil || limit == 0 {
		return nil
	}
	soon, stop := context.WithTimeout(ctx, limit)
	defer stop()
	if err := n.land(soon); err != nil && n.flight == nil || ctx.Err() != nil {
		return err
	}
	return nil
}
