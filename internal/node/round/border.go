package round

import (
	"context"
	"errors"

	"github.com/p2pdiloco/p2pdiloco/membership"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// next waits until there is a round to do. It does not wait if a contribution is still in flight:
// the round after that is due. After the last slot there is no round, and next waits for that slot.
func (l *Loop) next(ctx context.Context) (trainer.Task, error) {
	if l.inFlight != nil && !l.drains() {
		return *l.task.Load(), nil
	}
	if err := l.land(ctx); err != nil {
		return trainer.Task{}, err
	}
	return l.border(ctx)
}

// border waits until this peer is a member, holds the state at the tip, and has a slot left to
// train for.
func (l *Loop) border(ctx context.Context) (trainer.Task, error) {
	v, err := l.Wait(ctx, func(v membership.View) bool { return v.Done || v.Missed || v.IsMember && current(v) })
	if err := errors.Join(err, missed(v)); err != nil {
		return trainer.Task{}, err
	}
	if v.Done || v.AppliedSlot >= l.spec.LastSlot() {
		l.clock.train() // there is nothing to train any more
		_, err := l.Wait(ctx, func(v membership.View) bool { return v.Done })
		return trainer.Task{}, errors.Join(err, ErrRunEnded)
	}
	l.anchored, l.switches = true, v.ChainSwitches
	slotNumber := v.AppliedSlot + 1
	return l.setTask(v, trainer.Task{
		Slot: slotNumber, Steps: l.paced(v, slotNumber), Delay: l.spec.Delay(), Seed: l.spec.Seed, Self: l.self,
		Members: v.Peers(), PartSteps: int(l.spec.PartSteps()),
	}), nil
}

// setTask makes a task the newest, with this peer's part of the data for its slot. There is no part
// if the slot closed meanwhile: then its round will be cut short.
func (l *Loop) setTask(v membership.View, task trainer.Task) trainer.Task {
	if part, ok := v.Part(task.Slot); ok {
		task.Part, task.Done = part.Number, part.Done
	}
	l.task.Store(&task)
	return task
}
