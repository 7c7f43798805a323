package round

import (
	"context"
	"time"

	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// Rounds of a caller that keeps its own training loop: the sentence of round.go, with the caller in
// the trainer's place.
//
//	Anchor -> caller's inner steps -> Begin -> Finish -> caller's inner steps -> …
//	                                  '----- Sync ----'
//
// In an overlapped mode (Spec.Mode) they are the same calls, and wait for the slot before: what
// Sync and Finish leave in the caller's vector is where the next inner steps start, ahead of the
// anchor by the contribution that is still being reduced.
//
// In mode streaming a round is a slot's, with a fragment of the model, and Finish lands it in what
// the caller has trained since Begin:
//
//	Anchor -> Task.Steps -> Begin -> Task.Delay steps -> Finish -> Task.Steps -> Begin -> …

// Anchor is p2pdiloco.Node.Anchor.
func (l *Loop) Anchor(ctx context.Context, dst []float32) (slotNumber uint64, err error) {
	if l.begun != nil {
		return 0, ErrRoundOpen
	}
	if err := l.vectors.check(dst); err != nil {
		return 0, err
	}
	if err := l.land(ctx); err != nil {
		return 0, err
	}
	l.mode.reset() // dst is the caller's
	return l.receive(ctx, dst)
}

// receive takes the caller's parameters to where the next inner steps start.
func (l *Loop) receive(ctx context.Context, params []float32) (slotNumber uint64, err error) {
	if _, err = l.next(ctx); err != nil && !isRunEnd(err) {
		return 0, err
	}
	if err := l.mode.start(ctx, l, callersVector(params)); err != nil {
		return 0, err
	}
	l.rate.begin()
	l.report(0)
	l.clock.free()
	return l.base, err
}

// Task is p2pdiloco.Node.Task.
func (l *Loop) Task() (task trainer.Task, ok bool) {
	t := l.task.Load()
	if t == nil {
		return trainer.Task{}, false
	}
	task = *t
	task.Progress = func(stepsDone int) { l.Progress(stepsDone) }
	return task, true
}

// Measured is p2pdiloco.Node.Measured.
func (l *Loop) Measured(steps int, took time.Duration) { l.rate.give(steps, took) }

// Sync is p2pdiloco.Node.Sync: Begin, and Finish at once. params stay as they are until the round
// is finished or abandoned, so what they differ by is not copied first.
func (l *Loop) Sync(ctx context.Context, params []float32, weight uint64) error {
	if err := l.ready(params); err != nil {
		return err
	}
	r, err := l.offer(l.gradient(params), weight)
	if err != nil {
		return err
	}
	defer r.abandon() // when ctx has ended: the offer stands, but nobody waits for it any more
	_, err = r.finish(ctx, params, 0)
	if l.begun == r && !l.mode.resumes() {
		r.abandon()
		l.anchored = false
	}
	return err
}

// Round is a contribution that was offered and whose slot is not applied yet.
type Round struct {
	l    *Loop
	stop context.CancelFunc
	done chan struct{} // closed when Finish need not wait any more
	err  error         // valid once done is closed
}

// Begin is p2pdiloco.Node.Begin.
func (l *Loop) Begin(params []float32, weight uint64) (*Round, error) {
	if err := l.ready(params); err != nil {
		return nil, err
	}
	if err := l.vectors.subtract(params, l.fragment(l.base+1).Ranges); err != nil {
		return nil, err
	}
	return l.offer(l.gradient(nil), weight)
}

// ready refuses parameters that no round can be begun with.
func (l *Loop) ready(params []float32) error {
	if l.begun != nil {
		return ErrRoundOpen
	}
	if err := l.vectors.check(params); err != nil {
		return err
	}
	if !l.anchored {
		return ErrNoAnchor
	}
	return nil
}

// offer ends the time of the inner steps, and has their pseudo-gradient, which stays as it is until
// Finish, encoded and agreed in the background, which Close ends.
func (l *Loop) offer(g *gradient, weight uint64) (*Round, error) {
	took, task := l.clock.hold(), l.task.Load()
	if told, given := l.rate.told(); task != nil && !given {
		l.mode.measured(l.rate, *task, told, took)
	}
	if task != nil && task.Delay > 0 { // the caller trains on
		l.clock.free()
	}
	ctx, stop := context.WithCancel(context.Background())
	r := &Round{l: l, stop: stop, done: make(chan struct{})}
	if !l.life.Go(func() {
		defer close(r.done)
		r.err = l.contribute(ctx, g, weight)
	}) {
		stop()
		return nil, l.ended()
	}
	l.begun = r
	return r, nil
}

// contribute does a round from its pseudo-gradient to the next border.
func (l *Loop) contribute(ctx context.Context, g *gradient, weight uint64) error {
	if err := l.settle(ctx); err != nil {
		return err
	}
	c, err := l.contribution(g, weight)
	if err != nil {
		return err
	}
	if err := l.agree(ctx, c); err != nil {
		return err
	}
	if err := l.mode.finish(ctx, l); err != nil {
		return err
	}
	_, err = l.next(ctx) // the next anchor is here
	return err
}

// Done is closed when Finish need not wait any more.
func (r *Round) Done() <-chan struct{} { return r.done }

// Err is nil until Done is closed, then what Finish will return.
func (r *Round) Err() error {
	select {
	case <-r.done:
		return r.err
	default:
		return nil
	}
}

// Finish is p2pdiloco.Round.Finish.
func (r *Round) Finish(ctx context.Context, dst []float32) (slotNumber uint64, err error) {
	return r.finish(ctx, dst, r.l.spec.Delay())
}

// finish does what Finish does, after a number of inner steps since Begin.
func (r *Round) finish(ctx context.Context, dst []float32, trained int) (slotNumber uint64, err error) {
	l := r.l
	if l.begun != r {
		return 0, ErrNoRound
	}
	if err := l.vectors.check(dst); err != nil {
		return 0, err
	}
	l.clock.hold()
	defer func(began time.Time) { l.clock.stood(time.Since(began)) }(time.Now())
	select {
	case <-r.done:
	default:
		select {
		case <-r.done:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	if r.err == nil || isRunEnd(r.err) {
		if slotNumber, err = l.receive(ctx, dst); err != nil && ctx.Err() != nil && !isRunEnd(err) {
			return 0, err
		}
		l.mode.finished(l, trained)
	} else {
		err = r.err
	}
	r.abandon()
	return slotNumber, err
}

// abandon ends a round that is not finished.
func (r *Round) abandon() {
	if r.l.begun == r {
		r.stop()
		<-r.done
		r.l.begun = nil
	}
}
