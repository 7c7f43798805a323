package p2pdiloco

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/membership"
)

// The data flow of a run. Rounds follow each other; within one, each arrow waits for the one before it:
//
//	trainer -> pseudo-gradient -> codec -> all-reduce -> record -> outer step -> trainer
//	  Train      gradient         encode   '------------ agree -----------'      Load
//
// The last three interleave, so one call stands for them: the ledger (membership) decides what is reduced and when it is
// agreed, and has the worker (worker.go) reduce, hold and apply it. That goes on beside this loop, also while no trainer
// runs; this loop only offers a contribution and waits for its slot to be applied: at once, in an overlapped mode (overlap.go) before
// it offers the next one, and in mode streaming (streaming.go) in the midst of the next inner steps.

// Run drives Config.Trainer, round by round, until the run's last slot is applied and agreed (nil), ctx ends (its error), or
// the trainer fails. It leaves the node open: Leave or Close it.
func (n *Node) Run(ctx context.Context) error {
	if n.cfg.Trainer == nil {
		v, err := n.wait(ctx, func(v membership.View) bool { return v.Done || v.Missed })
		return errors.Join(err, missed(v))
	}
	n.restoreTrainer(ctx)
	n.landing.at = edition{} // nobody knows what the trainer holds
	n.report(0)              // from its first slot on, the others wait for this peer
	err := n.rounds(ctx)
	n.driver.Report(membership.ReportContributes{}) // nobody waits for it any more
	if t := (*TrainerError)(nil); (ctx.Err() != nil || !errors.As(err, &t)) && !n.abrupt {
		n.saveTrainer(ctx)
	}
	return err
}

func (n *Node) rounds(ctx context.Context) error {
	if err := n.land(ctx); err != nil { // what an earlier Run left
		return err
	}
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
		n.landing.tokens += stats.Tokens // in mode streaming what was cut short stays in the live parameters
		return err
	}
	gradient, err := n.export(ctx, t)
	if err != nil {
		return err
	}
	n.idle.begin()
	err = n.settleDebt(ctx)
	n.idle.end()
	if err != nil {
		return err
	}
	c, err := n.encode(gradient, stats.Tokens)
	if err != nil {
		return err
	}
	n.idle.begin()
	if err := n.agree(ctx, c); err != nil || !n.drains() {
		return err
	}
	defer n.idle.begin()
	return n.load(ctx, t) // nothing is left to train: the last anchor but one is measured meanwhile
}

// errSlotClosed ends a round whose slot was agreed without this peer: the next one starts from the new anchor.
var errSlotClosed = errors.New("the slot closed before the inner steps were done")

// next waits until there is a round to do. The one after a contribution that is still under way need not be waited for, but after the
// last slot there is none: then that is waited for.
func (n *Node) next(ctx context.Context) (Task, error) {
	if n.flight != nil && !n.drains() {
		return *n.task.Load(), nil
	}
	if err := n.land(ctx); err != nil {
		return Task{}, err
	}
	return n.border(ctx)
}

// border waits until this peer is a member and holds the state at the tip, where a slot is left to train for.
func (n *Node) border(ctx context.Context) (Task, error) {
	v, err := n.wait(ctx, func(v membership.View) bool { return v.Done || v.Missed || v.IsMember && current(v) })
	if err := errors.Join(err, missed(v)); err != nil {
		return Task{}, err
	}
	if v.Done || v.AppliedSlot >= n.spec.LastSlot() {
		n.idle.end() // there is nothing to train any more
		_, err := n.wait(ctx, func(v membership.View) bool { return v.Done })
		return Task{}, errors.Join(err, ErrRunEnded)
	}
	n.anchored, n.moves = true, v.Moves
	slotNumber := v.AppliedSlot + 1
	task := Task{
		Slot: slotNumber, Steps: n.paced(v, slotNumber), Delay: n.spec.delay(), Seed: n.spec.Seed, Self: n.Self(), Members: peersOf(v),
		PartSteps: int(n.spec.partSteps()),
	}
	task.deal(v)
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

// contribution is this peer's encoded pseudo-gradient.
type contribution struct {
	base, weight uint64 // slot of the anchor it started from; tokens
	fragment     int
	encoded      *allreduce.Contribution
	residual     []float32 // what encoding lost of the pseudo-gradient alone (feedback.go); nil: nothing is kept of it
}

// settleDebt waits for the contribution under way where what became of it goes into the next one's bytes: with a lossy codec (feedback.go).
func (n *Node) settleDebt(ctx context.Context) error {
	if n.worker.feedback == nil {
		return nil
	}
	return n.land(ctx)
}

// encode puts what the slot after the base takes of a pseudo-gradient into the run's codec; tokens are those of the inner steps. The buffer is
// new: the last one may still be on its way to others.
func (n *Node) encode(gradient []float32, tokens uint64) (contribution, error) {
	n.gauges.encoded(tokens)
	fragment := n.spec.FragmentOf(n.base + 1)
	encoded, residual, err := n.worker.feedback.encode(n.worker.params, fragment, n.gather(n.base+1, gradient))
	return contribution{n.base, n.weight(tokens), fragment, encoded, residual}, err
}

// agree offers a contribution to the open slot and returns once that has been applied here, with the contribution or without it; in mode
// streaming as soon as it is offered, in an overlapped mode once the slot before has been applied, which the contribution waits for. One that
// grew too stale, or on records that were given up for another branch, is dropped.
func (n *Node) agree(ctx context.Context, c contribution) error {
	if err := n.land(ctx); err != nil {
		return err
	}
	moves := n.moves
	task, err := n.border(ctx)
	if err != nil {
		return err
	}
	if n.overlaps() {
		task.Slot = n.begin() + 1 // a slot may have been applied meanwhile
	}
	if n.moves != moves || task.Slot-1 > c.base+n.spec.MaxStaleness() || task.Slot > n.spec.LastSlot() || n.spec.FragmentOf(task.Slot) != c.fragment {
		return nil
	}
	c.base = min(c.base, task.Slot-1) // a slot that another contribution was dropped from may be open still
	n.worker.keep(c)
	root := c.encoded.Root()
	n.driver.Report(n.tempo.on(membership.ReportOffer{Slot: task.Slot, Base: c.base, Weight: c.weight, Root: root}))
	if n.overlaps() || n.spec.Streams() {
		return errors.Join(n.takeOff(task, root), n.tarries(ctx))
	}
	return n.decided(ctx, task.Slot, moves, root)
}

// decided waits until the slot that a contribution was offered for is applied, with it or without it.
func (n *Node) decided(ctx context.Context, slotNumber, moves uint64, root Root) error {
	seen := false // the ledger has taken the offer in, or could not
	var planned time.Time
	_, err := n.wait(ctx, func(v membership.View) bool {
		n.tarry.watch(v, slotNumber, &planned)
		switch {
		case past(v, slotNumber, moves):
			return n.over(v, moves, root)
		case !v.IsMember || !current(v) || stands(v, root):
			seen = true
			return false
		}
		return seen // it stands no more: this peer was dropped meanwhile, or its state was wrong, and a new round is due
	})
	return err
}

// over says whether a contribution whose slot is past need not be waited for any more: in mode async it may stand for a later one.
func (n *Node) over(v membership.View, moves uint64, root Root) bool {
	return current(v) && !(n.spec.Mode == ModeAsync && v.Moves == moves && stands(v, root))
}

// stands says whether a contribution is offered for the open slot.
func stands(v membership.View, root Root) bool { return v.OwnOffer != nil && v.OwnOffer.Root == root }

// past says whether a slot is decided, or of no concern any more to what was taken after so many moves.
func past(v membership.View, slotNumber, moves uint64) bool {
	return v.AppliedSlot >= slotNumber || v.Done || v.Moves != moves
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
