package round

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/p2pdiloco/p2pdiloco/membership"
	"github.com/p2pdiloco/p2pdiloco/spec"
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
// train for. After the last slot it waits for the end, or until a switch to another branch leaves a
// slot again.
func (l *Loop) border(ctx context.Context) (trainer.Task, error) {
	v, err := l.untilEnd(ctx, trains)
	for err == nil && v.AppliedSlot >= l.spec.LastSlot() {
		l.clock.train() // there is nothing to train any more
		_, err = l.untilEnd(ctx, func(v membership.View) bool { return v.AppliedSlot < l.spec.LastSlot() })
		if err == nil {
			v, err = l.untilEnd(ctx, trains)
		}
	}
	if err != nil {
		return trainer.Task{}, err
	}
	if l.switches != v.ChainSwitches { // what has landed is of another branch
		l.landedSlot = 0
	}
	l.anchored, l.switches = true, v.ChainSwitches
	slotNumber := v.AppliedSlot + 1
	return l.setTask(v, trainer.Task{
		Slot: slotNumber, Steps: l.paced(v, slotNumber), Delay: l.spec.Delay(), Seed: l.spec.Seed, Self: l.self,
		Members: v.Peers(), PartSteps: int(l.spec.PartSteps()),
	}), nil
}

// trains says whether this peer is a member, and holds the state at the tip.
func trains(v membership.View) bool { return v.IsMember && current(v) }

// never is for untilEnd, which waits for the end then.
func never(membership.View) bool { return false }

// untilEnd returns the first view that satisfies the condition, or the error for how the run ended
// for this peer.
func (l *Loop) untilEnd(ctx context.Context, wanted func(membership.View) bool) (membership.View, error) {
	v, err := l.Wait(ctx, func(v membership.View) bool { return v.Done || v.Missed || wanted(v) })
	if err == nil {
		err = ending(v)
	}
	return v, err
}

// setTask makes a task the newest, with this peer's part of the data for its slot. There is no part
// if the slot closed meanwhile: then its round will be cut short.
func (l *Loop) setTask(v membership.View, task trainer.Task) trainer.Task {
	if part, ok := v.Part(task.Slot); ok {
		task.Part, task.Done = part.Number, part.Done
	}
	task.Step, task.TotalSteps = l.spec.Border(task.Slot-1), l.spec.Border(l.spec.LastSlot())
	l.task.Store(&task)
	return task
}

// train does the rest of the inner steps of a slot, after those done before. They end early when
// the slot closes without this peer and the run takes nothing so stale or has no slot left, when
// the run has ended for this peer, or when the node ends by itself: inner steps may take hours, and
// none of that must wait for them.
func (l *Loop) train(ctx context.Context, task trainer.Task, before int) (trainer.Stats, error) {
	if task.Steps == 0 {
		return trainer.Stats{}, nil
	}
	l.report(before)
	l.beginAt() // a slot may have landed in the midst of a task
	l.model.begin(ctx)
	steps, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer stop()
	newest, switches := min(task.Slot+l.spec.MaxStaleness(), l.spec.LastSlot()), l.switches
	watch.Go(func() {
		if _, err := l.Wait(steps, func(v membership.View) bool {
			return past(v, newest, switches) || ending(v) != nil
		}); err == nil || l.life.Over() {
			stop()
		}
	})
	l.rate.begin()
	began := time.Now()
	task.Progress = func(stepsDone int) { l.Progress(before + stepsDone) }
	stats, err := l.model.Train(steps, task)
	took := time.Since(began)
	l.clock.trained.Add(int64(took))
	l.rate.phase = took
	if err != nil && ctx.Err() == nil && steps.Err() != nil {
		if l.life.Over() {
			return stats, l.ended()
		}
		l.rate.cut(task.Steps, took)
		if err := l.land(ctx); err != nil { // it is settled
			return stats, err
		}
		return stats, errSlotClosed // the next round starts from the newest anchor
	}
	if err != nil {
		return stats, &trainer.Error{Call: fmt.Sprintf("slot %d", task.Slot), Err: err}
	}
	stats.Steps = cmp.Or(stats.Steps, task.Steps)
	l.model.trained(stats)
	l.rate.note(stats.Steps, took)
	return stats, nil
}

// Progress is p2pdiloco.Node.Progress. It tells the ledger a few times a second at most, and
// nothing before the first anchor.
func (l *Loop) Progress(stepsDone int) trainer.Progress {
	l.rate.progress(stepsDone)
	if last := l.reported.Load(); last != nil && time.Since(*last) > 200*time.Millisecond {
		l.report(stepsDone)
	}
	p := trainer.Progress{TotalSteps: l.spec.Border(l.spec.LastSlot())}
	if t := l.task.Load(); t != nil {
		p.Step = p.TotalSteps
		if !l.ledger.View().Done { // where a peer does not do H steps, each is a share of them
			steps := uint64(max(t.Steps, 1))
			done := min(uint64(max(stepsDone, 0)), steps)
			p.Step = min(p.TotalSteps, t.Step+done*(l.spec.Border(t.Slot)-t.Step)/steps)
		}
	}
	return p
}

// report reports at once how far the inner steps are. From the first time on the others wait for
// this peer's contributions.
func (l *Loop) report(stepsDone int) {
	now := time.Now()
	l.reported.Store(&now)
	l.ledger.Report(membership.ReportContributes{Contributes: true, Steps: uint32(stepsDone)})
}

// paced returns how many inner steps to do in a round for a slot, from the anchor of the one
// before.
func (l *Loop) paced(v membership.View, slotNumber uint64) int {
	if l.spec.Pace == spec.PaceSteps {
		return l.spec.Interval(slotNumber)
	}
	base := slotNumber - 1
	steps := v.Pace.Steps(l.self, base)
	// this peer is slower than the records know, and the others should not wait until they show it
	if own := l.rate.micros(); own > 0 {
		steps = min(steps, v.Pace.StepsAt(own, base))
	}
	return int(steps)
}
