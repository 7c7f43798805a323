package round

import (
	"context"
	"errors"
	"sync"

	"github.com/p2pdiloco/p2pdiloco/membership"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// returns says whether a trainer's error means that its live model may come back.
func (m *model) returns(err error) bool {
	_, ok := m.Trainer.(trainer.Returner)
	return ok && (errors.Is(err, trainer.ErrAnew) || errors.Is(err, trainer.ErrNotFinite))
}

// anew waits for a live model, after an error that says that it is gone, or until the run has
// ended. Meanwhile the others do not wait for this peer. Its offer stands. The next round
// starts from the newest anchor.
func (l *Loop) anew(ctx context.Context, why error) error {
	l.ledger.Report(membership.ReportContributes{})
	waiting, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		defer stop()
		_, _ = l.untilEnd(waiting, func(membership.View) bool { return false })
	})
	err := l.model.Trainer.(trainer.Returner).Return(waiting, why)
	ended := waiting.Err() != nil // the next round says how
	stop()
	watch.Wait()
	switch {
	case err == nil:
		l.report(0)
	case !ended:
		return &trainer.Error{Call: "return", Err: err}
	}
	l.mode.reset()
	return l.land(ctx)
}
