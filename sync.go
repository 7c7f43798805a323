package p2pdiloco

import (
	"context"
	"errors"
	"time"

	"github.com/p2pdiloco/p2pdiloco/membership"
)

// Rounds of a caller that keeps its own training loop: the sentence of node.go, with the caller in the trainer's place.
//
//	Anchor -> caller's inner steps -> Begin -> Finish -> caller's inner steps -> …
//	                                  '----- Sync ----'
//
// In an overlapped mode (Spec.Mode) they are the same calls, and wait for the slot before: what Sync and Finish leave in the caller's
// vector is where the next inner steps start, ahead of the anchor by the contribution that is still being reduced.
//
// In mode streaming a round is a slot's, with a fragment of the model, and Finish lands it in what the caller has trained since Begin:
//
//	Anchor -> Task.Steps -> Begin -> Task.Delay steps -> Finish -> Task.Steps -> Begin -> …

// Anchor waits until this peer is a member and holds the state, copies the anchor, D elements, into dst, and returns the
// number of outer steps in it: the start of a caller's own training loop. The others wait for this peer's contribution from
// then on. It returns ErrRunEnded, with the last anchor in dst, when the run has ended. What was trained before is given up; a
// contribution that was offered is waited for.
func (n *Node) Anchor(ctx context.Context, dst []float32) (slotNumber uint64, err error) {
	if n.begun != nil {
		return 0, ErrRoundOpen
	}
	if err := n.checkLength(dst); err != nil {
		return 0, err
	}
	if err := n.land(ctx); err != nil {
		return 0, err
	}
	n.landing.at = edition{} // dst is the caller's
	return n.anchor(ctx, dst)
}

func (n *Node) anchor(ctx context.Context, dst []float32) (slotNumber uint64, err error) {
	if _, err = n.next(ctx); err != nil && !errors.Is(err, ErrRunEnded) {
		return 0, err
	}
	n.receive(dst)
	n.tempo.begin()
	n.report(0)
	n.freed = time.Now()
	return n.base, err
}

// receive takes the caller's parameters to where the next inner steps start.
func (n *Node) receive(params []float32) {
	if n.spec.Streams() {
		if slots, all := n.follow(); !all {
			n.mix(params, slots)
			return
		}
	} else {
		n.begin()
		n.ahead()
	}
	copy(params, n.start)
}

// Task is the round of inner steps that the newest anchor is the start of. There is none before the first.
func (n *Node) Task() (task Task, ok bool) {
	t := n.task.Load()
	if t == nil {
		return Task{}, false
	}
	task = *t
	task.progress = n.Progress
	return task, true
}

// Progress says how many inner steps of the round are done: the others see by it that this peer is at work, and where a run's pace goes by
// speeds it says what the time of a round that is offered early was spent on. It may be called after every
// step, from any goroutine; it tells the ledger a few times a second at most, and nothing before the first anchor.
func (n *Node) Progress(stepsDone int) {
	n.tempo.progress(stepsDone)
	if last := n.reported.Load(); last != nil && time.Since(*last) > 200*time.Millisecond {
		n.report(stepsDone)
	}
}

// report says at once how far the inner steps are. From the first time on the others wait for this peer's contributions.
func (n *Node) report(stepsDone int) {
	now := time.Now()
	n.reported.Store(&now)
	n.driver.Report(membership.ReportContributes{Contributes: true, Steps: uint32(stepsDone)})
}

// Sync is one round: it contributes the pseudo-gradient anchor - params, waits until the slot is agreed and applied, and overwrites
// params by the new anchor. params, D elements, must have grown from what Anchor, Sync or Finish left. weight is the number of tokens
// or samples processed. It returns ErrRunEnded, with the last anchor in params, after the last slot.
//
// In an overlapped mode it waits until the slot before is applied, and overwrites params by where the next inner steps start; with the
// last slot's contribution it waits for that slot, too. One that is given up because ctx has ended is to be followed by Anchor.
//
// In mode streaming a round is what Task says: its steps to the next border, and the slot's fragment alone. Sync waits for it on the spot;
// Begin and Finish are for loops that train on meanwhile.
func (n *Node) Sync(ctx context.Context, params []float32, weight uint64) error {
	r, err := n.Begin(params, weight)
	if err != nil {
		return err
	}
	defer r.abandon() // when ctx has ended: the offer stands, but nobody waits for it any more
	_, err = r.finish(ctx, params, 0)
	if n.begun == r && (n.overlaps() || n.spec.Streams()) {
		r.abandon()
		n.anchored = false // params and start may have parted
	}
	return err
}

// Round is a contribution that was offered and whose slot is not applied yet.
type Round struct {
	n    *Node
	stop context.CancelFunc
	done chan struct{}
	err  error // once done
}

// Begin is the first half of Sync, which does not wait: it takes the pseudo-gradient anchor - params and offers it. params are not kept, and
// ErrNotFinite offers nothing. Finish comes next; what is trained until then starts from parameters that it overwrites, but in mode
// streaming.
func (n *Node) Begin(params []float32, weight uint64) (*Round, error) {
	if n.begun != nil {
		return nil, ErrRoundOpen
	}
	if err := n.checkLength(params); err != nil {
		return nil, err
	}
	if !n.anchored {
		return nil, ErrNoAnchor
	}
	gradient, err := n.gradient(params)
	if err != nil {
		return nil, err
	}
	n.clocked(n.stopClock())
	if n.spec.Streams() { // the caller trains on
		n.freed = time.Now()
	}
	return n.offer(gradient, weight)
}

// stopClock counts the inner steps of a loop of one's own up to now.
func (n *Node) stopClock() (took time.Duration) {
	if !n.freed.IsZero() {
		took = time.Since(n.freed)
		n.training.Add(int64(took))
		n.freed = time.Time{}
	}
	return took
}

// offer has a pseudo-gradient, which stays in n.local until Finish, encoded and agreed in the background, which Close ends.
func (n *Node) offer(gradient []float32, weight uint64) (*Round, error) {
	n.starting.Lock()
	defer n.starting.Unlock()
	if n.closed.Err() != nil {
		return nil, n.ended()
	}
	ctx, stop := context.WithCancel(context.Background())
	r := &Round{n: n, stop: stop, done: make(chan struct{})}
	n.begun = r
	n.wg.Go(func() {
		defer close(r.done)
		r.err = n.contribute(ctx, gradient, weight)
		if r.err == nil && n.spec.Streams() {
			r.err = n.land(ctx)
		}
		if r.err == nil {
			_, r.err = n.next(ctx) // the next anchor is here
		}
	})
	return r, nil
}

func (n *Node) contribute(ctx context.Context, gradient []float32, weight uint64) error {
	if err := n.settleDebt(ctx); err != nil {
		return err
	}
	c, err := n.encode(gradient, weight)
	if err != nil {
		return err
	}
	return n.agree(ctx, c)
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

// Finish waits until the slot is applied, with the contribution or without it, copies the new anchor into dst, and returns the number of
// outer steps in it. In an overlapped mode it waits for the slot before, copies where the next inner steps start, and counts the slot
// under way. It returns ErrRunEnded, with the last anchor in dst, after the last slot. When ctx ends first, its error is returned,
// and the round goes on: Finish may be called again.
//
// In mode streaming dst holds the live parameters, Task.Delay inner steps after Begin; the fragment of the slot lands in them, and the rest
// stays. Those of slots that were applied without this peer become the anchor's. After Anchor, a change of branch or the last slot all do.
// Task.Steps is then what is left to the next border.
func (r *Round) Finish(ctx context.Context, dst []float32) (slotNumber uint64, err error) {
	return r.finish(ctx, dst, r.n.spec.delay())
}

// finish is Finish after so many inner steps since Begin.
func (r *Round) finish(ctx context.Context, dst []float32, trained int) (slotNumber uint64, err error) {
	n := r.n
	if n.begun != r {
		return 0, ErrNoRound
	}
	if err := n.checkLength(dst); err != nil {
		return 0, err
	}
	n.stopClock()
	defer func(began time.Time) { n.idle.add(time.Since(began)) }(time.Now())
	select {
	case <-r.done:
	default:
		select {
		case <-r.done:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	if r.err == nil || errors.Is(r.err, ErrRunEnded) {
		if slotNumber, err = n.anchor(ctx, dst); err != nil && ctx.Err() != nil && !errors.Is(err, ErrRunEnded) {
			return 0, err
		}
		n.goOn(trained)
	} else {
		err = r.err
	}
	r.abandon()
	return slotNumber, err
}

// abandon ends a round that is not finished.
func (r *Round) abandon() {
	if r.n.begun == r {
		r.stop()
		<-r.done
		r.n.begun = nil
	}
}
