package round

import (
	"context"
	"errors"

	"github.com/p2pdiloco/p2pdiloco/membership"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// asyncMode starts as mode eager does. Three things differ (arXiv 2401.09135, 2604.21428):
//
//   - How much a peer does follows its speed: H_w = max(1, floor(v_w/v_max H)) inner steps, and
//     contributions weigh by tokens (Spec.Pace dylu, the default).
//   - A slot closes without the peers that are late, and what they offer counts later:
//     Spec.Discount takes what is up to three slots old, if no other is given.
//   - The next start waits a moment for the slot in flight where that is likely to be enough. A
//     start that has the others' steps in it is worth more than that moment.
type asyncMode struct{ overlapped }

// asyncWaitShare is the part of the time of a round's inner steps that mode async may wait for a
// slot, one in so many.
const asyncWaitShare = 20

func (asyncMode) offered(ctx context.Context, l *Loop, task trainer.Task, o offered) error {
	return errors.Join(l.takeOff(task, o), l.waitForSlot(ctx))
}

// waitForSlot waits for the slot in flight, for a twentieth of the inner steps at most, and only
// where the newest reduction took no longer than that: not for a slow peer, or only so long. Where
// all finish together and links are fast, the slot is there at once. A peer that is ahead of the
// others loses a little of its lead in each round, until it finds them at the border.
func (l *Loop) waitForSlot(ctx context.Context) error {
	limit := l.rate.phase / asyncWaitShare
	if l.inFlight == nil || limit <= l.rate.reduction() {
		return nil
	}
	soon, stop := context.WithTimeout(ctx, limit)
	defer stop()
	if err := l.land(soon); err != nil && l.inFlight == nil || ctx.Err() != nil {
		return err
	}
	return nil
}

// asyncGrace is for which part of a slot mode async waits for the peers that are late.
const asyncGrace = 0.25

// Timing lets slots close without the peers that are late: what misses one slot enters the next.
func (a asyncMode) Timing(t membership.Timing) membership.Timing {
	t = a.overlapped.Timing(t)
	t.MinGrace, t.GraceShare = t.Beat, asyncGrace
	return t
}
