package p2pdiloco

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
	"github.com/p2pdiloco/p2pdiloco/membership"
)

// What the rounds of node.go ask of a Trainer: load, train, and the pseudo-gradient that came of it.

// load makes the start of the inner steps, hands it to the trainer, and measures the anchor where the trainer can.
func (n *Node) load(ctx context.Context, t Trainer) error {
	n.idle.end()
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
		"round": slotNumber, "train_loss": n.last.Loss, "tokens": n.last.Tokens, "seconds": n.last.Elapsed.Seconds(), "grad_norm": n.last.GradNorm,
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

// train does the inner steps. They end early when the slot closes without this peer and the
// run takes nothing so stale.
func (n *Node) train(ctx context.Context, t Trainer, task Task) (Stats, error) {
	task.progress = n.Progress
	n.report(0)
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
	began := time.Now()
	stats, err := t.Train(steps, task)
	n.training.Add(int64(time.Since(began)))
	if err != nil && ctx.Err() == nil && steps.Err() != nil {
		n.flight = nil // it is settled: the round after this one starts from the newest anchor
		return Stats{}, errSlotClosed
	}
	if err != nil {
		return stats, &TrainerError{fmt.Sprintf("slot %d", task.Slot), err}
	}
	n.last = stats
	n.gauges.trained(stats)
	return stats, nil
}

// export fetches the pseudo-gradient start - live parameters into n.local.
func (n *Node) export(ctx context.Context, t Trainer) (gradient []float32, err error) {
	if e, ok := t.(GradientExporter); ok {
		gradient, err = n.local, e.ExportGradient(ctx, n.start, n.local, n.finite)
	} else if err = t.Export(ctx, n.local); err == nil {
		gradient, err = n.gradient(n.local)
	}
	if err != nil {
		return nil, &TrainerError{"export", err}
	}
	return gradient, nil
}

// gradient is the pseudo-gradient start - params, in n.local. params may be n.local itself.
func (n *Node) gradient(params []float32) ([]float32, error) {
	kernel.Sub(n.local, n.start, params)
	return n.local, n.finite(0, len(n.local))
}

// finite refuses a pseudo-gradient that has a value of no use in [begin, end).
func (n *Node) finite(begin, end int) error {
	i := kernel.Bounded(n.local[begin:end])
	if i < 0 {
		return nil
	}
	i += begin
	return fmt.Errorf("%w: element %d of %d (tensor %q) is %v: the inner steps diverged", ErrNotFinite, i, len(n.local), n.spec.Layout.At(uint64(i)), n.local[i])
}
