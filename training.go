package p2pdiloco

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/p2pdiloco/p2pdiloco/membership"
)

// What the rounds of node.go ask of a Trainer: load, train, and the pseudo-gradient that came of it.

// load makes the start of the inner steps, hands it to the trainer, and measures the anchor where the trainer can.
func (n *Node) load(ctx context.Context, t Trainer) error {
	n.idle.end()
	if n.spec.Streams() {
		return n.refresh(ctx, t)
	}
	at, plain := n.begin(), n.flight == nil
	fresh := n.measured == nil || *n.measured != at
	if fresh {
		n.keepTrainer(ctx, at)
	}
	if _, measures := n.evaluator(t); plain || fresh && measures { // it is the anchor that is measured
		if err := t.Load(ctx, n.start); err != nil {
			return &TrainerError{"load", err}
		}
	}
	if fresh {
		n.measured = &at
		if err := n.measure(ctx, t, at); err != nil {
			return err
		}
	}
	if plain {
		return nil
	}
	n.ahead()
	if err := t.Load(ctx, n.start); err != nil {
		return &TrainerError{"load", err}
	}
	return nil
}

// measure tells how the last round went, and how good the anchor is.
func (n *Node) measure(ctx context.Context, t Trainer, slotNumber uint64) error {
	fields := map[string]any{
		"round": slotNumber / n.spec.Fragments, "train_loss": n.last.Loss, "tokens": n.last.Tokens, "seconds": n.last.Elapsed.Seconds(), "grad_norm": n.last.GradNorm,
		"stall": n.idle.last.Seconds(),
	}
	if e, ok := n.evaluator(t); ok {
		switch loss, err := e.Evaluate(ctx); {
		case err == nil:
			fields["loss"] = loss
			n.gauges.measured(slotNumber, loss)
		case errors.Is(err, errors.ErrUnsupported):
			n.blind = true
		default:
			return &TrainerError{"evaluate", err}
		}
	}
	n.emit("trainer.stats", fields)
	n.last, n.idle.last = Stats{Loss: n.last.Loss, GradNorm: n.last.GradNorm}, 0 // after the last slot there are no more inner steps
	return nil
}

// evaluator is the trainer, if it can measure.
func (n *Node) evaluator(t Trainer) (e Evaluator, ok bool) {
	e, ok = t.(Evaluator)
	return e, ok && !n.blind
}

// begin copies the anchor to n.start, unless the one that the next inner steps start from is there already, and says which it is.
func (n *Node) begin() (slotNumber uint64) {
	if n.flight == nil {
		n.held = n.worker.state.copyAnchor(n.start).slot
		n.base = n.held
	}
	return n.held
}

// train does the inner steps. In mode streaming the slot under way lands in the midst of them.
func (n *Node) train(ctx context.Context, t Trainer, task Task) (Stats, error) {
	if !n.spec.Streams() || n.flight == nil {
		return n.steps(ctx, t, task)
	}
	at, stats, err := n.besides(ctx, t, task)
	if err == nil {
		err = n.landIn(ctx, t, task)
	}
	if err != nil {
		return stats, err
	}
	rest, err := n.steps(ctx, t, task.part(at, task.Steps))
	stats = stats.plus(rest)
	if err == nil {
		n.tempo.whole(stats.Steps)
	}
	return stats, err
}

// besides does the inner steps of a task beside the slot under way, and says how many: tau; and more of them, some at a time, while the
// slot's reduction lasts longer. That costs what is trained in its fragment, and nothing in the others: standing still would cost all of them.
// Who is ahead of the others does wait for their offers: else it would be ahead for good. So does, for the outcome, who wants tau 0.
func (n *Node) besides(ctx context.Context, t Trainer, task Task) (at int, stats Stats, err error) {
	next := task.Delay
	for {
		more, err := n.steps(ctx, t, task.part(at, next))
		stats, at = stats.plus(more), next
		if err != nil || at == 0 || at == task.Steps {
			return at, stats, err
		}
		if err := n.planned(ctx); err != nil || n.landed() {
			return at, stats, err
		}
		next = min(at+max(1, task.Delay/4), task.Steps)
	}
}

// planned waits until the slot under way has a plan, or needs none any more.
func (n *Node) planned(ctx context.Context) error {
	n.idle.begin()
	defer n.idle.end()
	s, moves := n.flight.slot, n.moves
	_, err := n.wait(ctx, func(v membership.View) bool {
		return n.landed() || v.Plan != nil && v.Plan.Slot >= s || past(v, s, moves) || v.Done || v.Missed
	})
	return err
}

// steps does inner steps. They end early when the slot closes without this peer and the
// run takes nothing so stale.
func (n *Node) steps(ctx context.Context, t Trainer, task Task) (Stats, error) {
	if task.Steps == 0 {
		return Stats{}, nil
	}
	done := 0 // for this slot
	if n.spec.Streams() {
		done = int(task.Done)
	}
	task.progress = func(stepsDone int) { n.Progress(done + stepsDone) }
	n.report(done)
	steps, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer stop()
	moves := n.moves
	watch.Go(func() {
		if _, err := n.wait(steps, func(v membership.View) bool { return past(v, task.Slot+n.spec.MaxStaleness(), moves) }); err == nil {
			stop()
		}
	})
	n.trained = true
	n.tempo.begin()
	began := time.Now()
	stats, err := t.Train(steps, task)
	took := time.Since(began)
	n.training.Add(int64(took))
	n.tarry.phase = took
	if err != nil && ctx.Err() == nil && steps.Err() != nil {
		n.tempo.cut(task.Steps, took)
		n.flight = nil // it is settled: the round after this one starts from the newest anchor
		return stats, errSlotClosed
	}
	if err != nil {
		return stats, &TrainerError{fmt.Sprintf("slot %d", task.Slot), err}
	}
	stats.Steps = cmp.Or(stats.Steps, task.Steps)
	n.last = n.last.plus(stats)
	n.gauges.trained(n.last)
	n.tempo.note(stats.Steps, took)
	return stats, nil
}

// export fetches the pseudo-gradient start - live parameters into n.local: that of the next slot's fragment.
func (n *Node) export(ctx context.Context, t Trainer) (gradient []float32, err error) {
	e, ok := t.(GradientExporter)
	switch {
	case n.spec.Streams():
		if err = n.fetch(ctx, t, n.fragment(n.base+1).Ranges); err == nil {
			gradient, err = n.gradient(n.local)
		}
	case ok:
		gradient, err = n.local, e.ExportGradient(ctx, n.start, n.local, n.finite)
	default:
		if err = t.Export(ctx, n.local); err == nil {
			gradient, err = n.gradient(n.local)
		}
	}
	if err != nil {
		return nil, &TrainerError{"export", err}
	}
	return gradient, nil
}

// gradient is the pseudo-gradient start - params of the next slot's fragment, in n.local. params may be n.local itself.
func (n *Node) gradient(params []float32) ([]float32, error) {
	for _, r := range n.fragment(n.base + 1).Ranges {
		subtract(n.local[r.Begin:r.End], n.start[r.Begin:r.End], params[r.Begin:r.End])
		if err := n.finite(int(r.Begin), int(r.End)); err != nil {
			return nil, err
		}
	}
	return n.local, nil
}

// finite refuses a pseudo-gradient that has a value of no use in [begin, end).
func (n *Node) finite(begin, end int) error {
	i := bounded(n.local[begin:end])
	if i < 0 {
		return nil
	}
	i += begin
	return fmt.Errorf("%w: element %d of %d (tensor %q) is %v: the inner steps diverged", ErrNotFinite, i, len(n.local), n.spec.Layout.At(uint64(i)), n.local[i])
}
