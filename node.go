package p2pdiloco

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
	"github.com/p2pdiloco/p2pdiloco/membership"
)

// The data flow of a run. Rounds follow each other; within one, each arrow waits for the one before it:
//
//	trainer -> pseudo-gradient -> codec -> all-reduce -> record -> outer step -> trainer
//	  Train      gradient         encode   '------------ agree -----------'      Load
//
// The last three interleave, so one call stands for them: the ledger (membership) decides what is reduced and when it is
// agreed, and has the worker (worker.go) reduce, hold and apply it. That goes on beside this loop, also while no trainer
// runs; this loop only offers a contribution and waits for its slot to be applied.

// Run drives Config.Trainer, round by round, until the run's last slot is applied and agreed (nil), ctx ends (its error), or
// the trainer fails. It leaves the node open: Leave or Close it.
func (n *Node) Run(ctx context.Context) error {
	if n.cfg.Trainer == nil {
		v, err := n.wait(ctx, func(v membership.View) bool { return v.Done || v.Missed })
		return errors.Join(err, missed(v))
	}
	n.restoreTrainer(ctx)
	n.report(0) // from its first slot on, the others wait for this peer
	err := n.rounds(ctx)
	n.driver.Report(membership.ReportContributes{}) // nobody waits for it any more
	if t := (*TrainerError)(nil); (ctx.Err() != nil || !errors.As(err, &t)) && !n.abrupt {
		n.saveTrainer(ctx)
	}
	return err
}

func (n *Node) rounds(ctx context.Context) error {
	for {
		switch err := n.round(ctx, n.cfg.Trainer); {
		case errors.Is(err, ErrRunEnded):
			return nil
		case err != nil && !errors.Is(err, errSlotClosed):
			return err
		}
	}
}

// round is one round of a trainer: the sentence above.
func (n *Node) round(ctx context.Context, t Trainer) error {
	task, err := n.next(ctx)
	if err != nil && !errors.Is(err, ErrRunEnded) {
		return err
	}
	if err := errors.Join(n.load(ctx, t), err); err != nil { // the last anchor is loaded, too
		return err
	}
	stats, err := n.train(ctx, t, task)
	if err != nil {
		return err
	}
	gradient, err := n.export(ctx, t)
	if err != nil {
		return err
	}
	c, err := n.encode(gradient, stats.Tokens)
	if err != nil {
		return err
	}
	return n.agree(ctx, c)
}

// errSlotClosed ends a round whose slot was agreed without this peer: the next one starts from the new anchor.
var errSlotClosed = errors.New("the slot closed before the inner steps were done")

// next waits until there is a round to do: this peer is a member, holds the state at the tip, and a slot is left.
func (n *Node) next(ctx context.Context) (Task, error) {
	v, err := n.wait(ctx, func(v membership.View) bool { return v.Done || v.Missed || v.IsMember && current(v) })
	if err := errors.Join(err, missed(v)); err != nil {
		return Task{}, err
	}
	if v.Done || v.AppliedSlot >= n.spec.Rounds {
		_, err := n.wait(ctx, func(v membership.View) bool { return v.Done })
		return Task{}, errors.Join(err, ErrRunEnded)
	}
	n.anchored, n.moves = true, v.Moves
	task := Task{Slot: v.AppliedSlot + 1, Steps: int(n.spec.InnerSteps), Seed: n.spec.Seed, Self: n.Self(), Members: peersOf(v)}
	n.task.Store(&task)
	return task, nil
}

// missed is ErrMissed if the run ended without this peer.
func missed(v membership.View) error {
	if v.Missed && !v.Done {
		return ErrMissed
	}
	return nil
}

// load makes the anchor the start of the inner steps, hands it to the trainer, and measures it where the trainer can.
func (n *Node) load(ctx context.Context, t Trainer) error {
	at := n.begin()
	if n.measured == nil || *n.measured != at.slot {
		n.keepTrainer(ctx, at.slot)
	}
	if err := t.Load(ctx, n.start); err != nil {
		return &TrainerError{"load", err}
	}
	if n.measured != nil && *n.measured == at.slot {
		return nil
	}
	n.measured = &at.slot
	return n.measure(ctx, t, at.slot)
}

// measure tells how the last round went, and how good the anchor is.
func (n *Node) measure(ctx context.Context, t Trainer, slotNumber uint64) error {
	fields := map[string]any{
		"round": slotNumber, "train_loss": n.last.Loss, "tokens": n.last.Tokens, "seconds": n.last.Elapsed.Seconds(), "grad_norm": n.last.GradNorm,
	}
	if e, ok := t.(Evaluator); ok {
		switch loss, err := e.Evaluate(ctx); {
		case err == nil:
			fields["loss"] = loss
		case !errors.Is(err, errors.ErrUnsupported):
			return &TrainerError{"evaluate", err}
		}
	}
	n.emit("trainer.stats", fields)
	return nil
}

// begin copies the anchor to n.start.
func (n *Node) begin() position {
	at := n.worker.state.copyAnchor(n.start)
	n.base = at.slot
	return at
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
	watch.Go(func() {
		if _, err := n.wait(steps, func(v membership.View) bool { return n.past(v, task.Slot+n.spec.MaxStaleness()) }); err == nil {
			stop()
		}
	})
	n.trained = true
	stats, err := t.Train(steps, task)
	if err != nil && ctx.Err() == nil && steps.Err() != nil {
		return Stats{}, errSlotClosed
	}
	if err != nil {
		return stats, &TrainerError{fmt.Sprintf("slot %d", task.Slot), err}
	}
	n.last = stats
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

// contribution is this peer's encoded pseudo-gradient.
type contribution struct {
	base, weight uint64 // slot of the anchor it started from; tokens
	encoded      *allreduce.Contribution
}

// encode puts a pseudo-gradient into the run's codec. The buffer is new: the last one may still be on its way to others.
func (n *Node) encode(gradient []float32, weight uint64) (contribution, error) {
	c := n.worker.codec
	encoded, err := allreduce.Commit(n.worker.params, c.Append(make([]byte, 0, c.EncodedSize(len(gradient))), gradient))
	return contribution{n.base, weight, encoded}, err
}

// agree offers a contribution to the open slot and returns once that has been applied here, with the contribution or without it.
// One that grew too stale, or on records that were given up for another branch, is dropped.
func (n *Node) agree(ctx context.Context, c contribution) error {
	moves := n.moves
	task, err := n.next(ctx)
	if err != nil || n.moves != moves || task.Slot-1 > c.base+n.spec.MaxStaleness() {
		return err
	}
	n.worker.keep(c)
	n.driver.Report(membership.ReportOffer{Slot: task.Slot, Base: c.base, Weight: c.weight, Root: c.encoded.Root()})
	seen := false // the ledger has taken the offer in, or could not
	_, err = n.wait(ctx, func(v membership.View) bool {
		switch {
		case n.past(v, task.Slot):
			return current(v)
		case !v.IsMember || !current(v) || v.OwnOffer != nil && v.OwnOffer.Root == c.encoded.Root():
			seen = true
			return false
		}
		return seen // it stands no more: this peer was dropped meanwhile, or its state was wrong, and a new round is due
	})
	return err
}

// past says whether a slot is decided, or of no concern any more.
func (n *Node) past(v membership.View, slotNumber uint64) bool {
	return v.AppliedSlot >= slotNumber || v.Done || v.Moves != n.moves
}

func (n *Node) checkLength(x []float32) error {
	if d := n.spec.Layout.Elements(); uint64(len(x)) != d {
		return fmt.Errorf("%w: %d elements given, the run's model has %d", ErrLength, len(x), d)
	}
	return nil
}

// current says whether the state after the newest certified record is held here.
func current(v membership.View) bool { return v.Synced && !v.Diverged && v.Applied == v.Tip.Height }

func peersOf(v membership.View) []PeerID {
	peers := make([]PeerID, len(v.Tip.Members))
	for i, m := range v.Tip.Members {
		peers[i] = m.Peer
	}
	return peers
}

// wait returns the first view of the ledger that is as wanted.
func (n *Node) wait(ctx context.Context, wanted func(membership.View) bool) (membership.View, error) {
	if n.closed.Err() != nil {
		return membership.View{}, n.ended()
	}
	v, err := n.driver.WaitView(ctx, wanted)
	if err != nil && ctx.Err() == nil && n.closed.Err() != nil {
		err = n.ended()
	}
	return v, err
}

// ended says why a closed node is closed: ErrClosed, and the fault that ended it, if one did.
func (n *Node) ended() error {
	if fault := n.fault.Load(); fault != nil {
		return faultError{*fault}
	}
	return errors.Join(ErrClosed, n.driver.Err())
}
