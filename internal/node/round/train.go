package round

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/p2pdiloco/p2pdiloco/membership"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// train does the rest of the inner steps of a slot, after those done before. They end early when
// the slot closes without this peer and the run takes nothing so stale.
func (l *Loop) train(ctx context.Context, task trainer.Task, before int) (trainer.Stats, error) {
	if task.Steps == 0 {
		return trainer.Stats{}, nil
	}
	l.report(before)
	steps, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer stop()
	switches := l.switches
	watch.Go(func() {
		if _, err := l.Wait(steps, func(v membership.View) bool {
			return past(v, task.Slot+l.spec.MaxStaleness(), switches)
		}); err == nil {
			stop()
		}
	})
	l.rate.begin()
	began := time.Now()
	task.Progress = func(stepsDone int) { l.Progress(before + stepsDone) }
	stats, err := l.model.train(steps, task)
	took := time.Since(began)
	l.clock.trained.Add(int64(took))
	l.rate.phase = took
	if err != nil && ctx.Err() == nil && steps.Err() != nil {
		l.rate.cut(task.Steps, took)
		l.inFlight = nil // it is settled: the round after this one starts from the newest anchor
		return stats, errSlotClosed
	}
	if err != nil {
		return stats, &trainer.Error{Call: fmt.Sprintf("slot %d", task.Slot), Err: err}
	}
	stats.Steps = cmp.Or(stats.Steps, task.Steps)
	l.model.trained(stats)
	l.rate.note(stats.Steps, took)
	return stats, nil
}

// Progress says how many inner steps of the round are done: the others see by it that this peer is
// at work, and where a run's pace goes by speeds it says what the time of a round that is offered
// early was spent on. It may be called after every step, from any goroutine. It tells the ledger a
// few times a second at most, and nothing before the first anchor.
func (l *Loop) Progress(stepsDone int) {
	l.rate.progress(stepsDone)
	if last := l.reported.Load(); last != nil && time.Since(*last) > 200*time.Millisecond {
		l.report(stepsDone)
	}
}

// report reports at once how far the inner steps are. From the first time on the others wait for
// this peer's contributions.
func (l *Loop) report(stepsDone int) {
	now := time.Now()
	l.reported.Store(&now)
	l.ledger.Report(membership.ReportContributes{Contributes: true, Steps: uint32(stepsDone)})
}
