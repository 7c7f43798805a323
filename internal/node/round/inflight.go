package round

import (
	"context"
	"errors"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// offered is a contribution that was reported to the ledger.
type offered struct {
	slot     uint64 // that it was offered for
	switches uint64 // of the chain, when its inner steps began
	root     slot.Root
	before   uint64 // offers that were reported before it
}

// past says whether its slot is decided, or does not matter any more.
func (o offered) past(v membership.View) bool { return past(v, o.slot, o.switches) }

// past says whether a slot is decided, or does not matter any more because the chain was switched
// since.
func past(v membership.View, slotNumber, switches uint64) bool {
	return v.AppliedSlot >= slotNumber || v.Done || v.ChainSwitches != switches
}

// fallen says whether a new round is due before the slot is decided: the ledger has taken the
// offer, and it does not stand any more, because this peer was dropped meanwhile or its state was
// wrong.
func (o offered) fallen(v membership.View) bool {
	return v.Reported > o.before && trains(v) && !stands(v, o.root)
}

// stands says whether a contribution is offered for the open slot.
func stands(v membership.View, root slot.Root) bool {
	return v.OwnOffer != nil && v.OwnOffer.Root == root
}

// decided waits until the slot that a contribution was offered for is applied, with it or without
// it, or the run has ended for this peer. In that case the next border says how. applied: the slot
// is, on the branch that the contribution was offered on.
func (l *Loop) decided(ctx context.Context, o offered) (applied bool, err error) {
	var planned time.Time
	v, err := l.Wait(ctx, func(v membership.View) bool {
		l.rate.watch(v, o.slot, &planned)
		switch {
		case ending(v) != nil:
			return true
		case o.past(v):
			return l.mode.over(v, o)
		}
		return o.fallen(v)
	})
	return err == nil && v.AppliedSlot >= o.slot && v.ChainSwitches == o.switches, err
}

// inFlight is a contribution that is reduced: in mode sync while the peer waits for it, in the
// others while the next inner steps run.
type inFlight struct {
	slot    uint64
	peers   int // that contribute
	ahead   bool
	done    chan struct{} // closed when the slot is applied, or the contribution stands no more
	applied bool          // once done: the slot is, on the branch that the contribution is of
	err     error         // once done
}

// landed says whether this peer need not wait for the slot any more.
func (f *inFlight) landed() bool {
	select {
	case <-f.done:
		return true
	default:
		return false
	}
}

// watch has the contribution that was offered in flight. Nobody has to wait for it.
func (l *Loop) watch(o offered) error {
	f := &inFlight{slot: o.slot, peers: l.contributors(), done: make(chan struct{})}
	if !l.life.Go(func() {
		defer close(f.done)
		f.applied, f.err = l.decided(context.Background(), o)
	}) {
		return l.ended()
	}
	l.inFlight = f
	return nil
}

// takeOff watches the contribution that was offered for task's slot, and makes the task of the
// round beside it.
func (l *Loop) takeOff(task trainer.Task, o offered) error {
	if err := l.watch(o); err != nil {
		return err
	}
	l.base = o.slot
	task.Slot++
	v := l.ledger.View()
	task.Steps = l.paced(v, task.Slot)
	l.setTask(v, task)
	return nil
}

// drains says whether the last slot's contribution is in flight.
func (l *Loop) drains() bool { return l.inFlight != nil && l.inFlight.slot >= l.spec.LastSlot() }

// planned waits until the slot in flight has a plan, or does not need one any more.
func (l *Loop) planned(ctx context.Context) error {
	f, switches := l.inFlight, l.switches
	_, err := l.Wait(ctx, func(v membership.View) bool {
		return f.landed() || v.Plan != nil && v.Plan.Slot >= f.slot || past(v, f.slot, switches) || v.Missed
	})
	return err
}

// contributors returns how many peers may contribute to the open slot, as far as this peer knows.
func (l *Loop) contributors() (m int) {
	v := l.ledger.View()
	for _, p := range v.Members {
		if p.Contributes && !p.Lost || p.Peer == l.self {
			m++
		}
	}
	if v.AppliedSlot == 0 { // it waits for them
		m = max(m, int(l.spec.StartPeers))
	}
	return max(m, 1)
}

// ending returns the error for how the run has ended for this peer: ErrRunEnded if it ended well,
// ErrMissed if it did so without this peer. Nil: it has not ended.
func ending(v membership.View) error {
	switch {
	case v.Done:
		return ErrRunEnded
	case v.Missed:
		return ErrMissed
	}
	return nil
}

// isRunEnd says whether an error stands for the end of the rounds, with a last anchor to load.
func isRunEnd(err error) bool { return errors.Is(err, ErrRunEnded) }

// current says whether the state after the newest certified record is held here.
func current(v membership.View) bool { return v.Synced && !v.Diverged && v.Applied == v.Tip.Height }
