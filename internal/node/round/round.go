package round

import (
	"context"
	"errors"
	"sync"

	"github.com/p2pdiloco/p2pdiloco/internal/node/replica"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// The data flow of a run. Rounds follow each other. Within one round, each arrow is one call, which
// waits for the one before it:
//
//	trainer -> pseudo-gradient -> codec -> all-reduce -> record -> outer step -> trainer
//	 train     exported     contribution  '------ agree, land ------'       start
//
// The all-reduce, the record and the outer step interleave, so agree stands for the three: the
// ledger (membership) decides what is reduced and when it is agreed, and has the replica reduce,
// hold and apply it. That goes on beside this loop, also while no trainer runs. This loop only
// offers a contribution and waits until its slot is applied. The mode of the run (mode.go) says
// where the next inner steps start, when a slot lands in the live parameters, and what a
// contribution weighs.

// Run is p2pdiloco.Node.Run. Without a trainer it waits for the end of the run.
func (l *Loop) Run(ctx context.Context) error {
	if l.model == nil {
		_, err := l.untilEnd(ctx, never)
		if isRunEnd(err) {
			return nil
		}
		return err
	}
	l.mode.reset()
	l.report(0) // from its first slot on, the others wait for this peer
	err := l.rounds(ctx)
	l.ledger.Report(membership.ReportContributes{}) // nobody waits for it any more
	return err
}

func (l *Loop) rounds(ctx context.Context) error {
	if err := l.land(ctx); err != nil { // what an earlier Run left
		return err
	}
	for {
		switch err := l.round(ctx); {
		case isRunEnd(err):
			return nil
		case ctx.Err() == nil && l.model.returns(err):
			if err := l.anew(ctx, err); err != nil {
				return err
			}
		case err != nil && !errors.Is(err, errSlotClosed):
			return err
		}
	}
}

// round does one round of a trainer: the sentence above.
func (l *Loop) round(ctx context.Context) error {
	task, err := l.next(ctx)
	if err != nil && !isRunEnd(err) {
		return err
	}
	if err := errors.Join(l.start(ctx), err); err != nil { // the last anchor is loaded, too
		return err
	}
	stats, err := l.mode.train(ctx, l, task)
	if err != nil {
		return err
	}
	if l.mode.resumes() { // the next round begins with what this one ends with
		l.model.save(ctx, endShare, l.model.private.End)
	}
	if err := l.clock.while(ctx, l.settle); err != nil {
		return err
	}
	c, err := l.contribution(l.exported(ctx), stats.Tokens)
	if err != nil {
		return &trainer.Error{Call: "export", Err: err}
	}
	l.clock.stand()
	if err := l.agree(ctx, c); isRunEnd(err) {
		return errors.Join(l.start(ctx), err) // the end came: the last anchor is loaded
	} else if err != nil || !l.drains() {
		return err
	}
	defer l.clock.stand()
	// nothing is left to train, so the last anchor but one is measured meanwhile
	return l.start(ctx)
}

// errSlotClosed ends a round whose slot was agreed without this peer. The next round starts from
// the new anchor.
var errSlotClosed = errors.New("the slot closed before the inner steps were done")

// start loads the parameters from which the next inner steps start.
func (l *Loop) start(ctx context.Context) error {
	l.clock.train()
	l.anchor()
	l.beginAt()
	l.model.restore(ctx)
	if !l.sound { // looked at once: what comes after it is finite, too
		if err := l.vectors.sound(); err != nil {
			return &trainer.Error{Call: "load", Err: err}
		}
		l.sound = true
	}
	return l.mode.start(ctx, l, l.model)
}

// settle waits for the contribution in flight if its fate changes the next one's bytes. That is so
// with a lossy codec.
func (l *Loop) settle(ctx context.Context) error {
	if !l.replica.PaysDebts() {
		return nil
	}
	return l.land(ctx)
}

// contribution puts a pseudo-gradient of the slot after the base into the run's codec. tokens are
// those of the inner steps.
func (l *Loop) contribution(g *gradient, tokens uint64) (replica.Contribution, error) {
	c, err := l.replica.Encode(l.base, g)
	if err == nil {
		l.gauges.encoded(tokens)
		c.Weight = l.replica.Claim(l.base+1, l.mode.weight(l, tokens))
	}
	return c, err
}

// agree offers a contribution to the open slot, once the one in flight has landed. It returns when
// the next inner steps may start, which the mode says: in mode sync when the slot has been applied
// here, with the contribution or without it. A contribution that grew too stale, or on records that
// were given up for another branch, is dropped. So is one that grew from a start from which another
// one was offered and applied: it has that one in it, which must not count twice.
func (l *Loop) agree(ctx context.Context, c replica.Contribution) error {
	if err := l.land(ctx); err != nil {
		return err
	}
	switches := l.switches
	task, err := l.border(ctx)
	if err != nil {
		return err
	}
	task.Slot = l.mode.enters(l, task)
	// Sync was given up after its offer, and called again with what grew from the same start
	again := l.landedSlot > c.Base && task.Slot > l.landedSlot
	if again || l.switches != switches || task.Slot-1 > c.Base+l.spec.MaxStaleness() ||
		task.Slot > l.spec.LastSlot() || l.spec.FragmentOf(task.Slot) != c.Fragment {
		return nil
	}
	// a slot that another contribution was dropped from may be open still
	c.Base = min(c.Base, task.Slot-1)
	l.replica.Keep(c)
	root, before := c.Encoded.Root(), l.ledger.View().Reported
	l.ledger.Report(l.rate.fill(membership.ReportOffer{
		Slot: task.Slot, Base: c.Base, Weight: c.Weight, Root: root, NormSq: c.Encoded.NormSq(),
	}))
	return l.mode.offered(ctx, l, task, offered{task.Slot, switches, root, before})
}

// land waits for the contribution in flight, if there is one.
func (l *Loop) land(ctx context.Context) error {
	f := l.inFlight
	if f == nil {
		return nil
	}
	select {
	case <-f.done:
		l.inFlight = nil
		if f.applied {
			l.landedSlot = f.slot
		}
		return f.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// fragment returns the part of the model that a slot updates.
func (l *Loop) fragment(slotNumber uint64) slot.Fragment {
	return l.replica.Fragment(slotNumber)
}

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
		_, _ = l.untilEnd(waiting, never)
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
