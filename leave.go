package p2pdiloco

import (
	"context"
	"errors"

	"github.com/p2pdiloco/p2pdiloco/membership"
)

// Leave announces that this peer leaves, waits until the members have agreed to go on without it (a contribution already
// offered still counts), and closes the node. Without a quorum nobody can agree to it: then it does not wait. ctx bounds the
// waiting.
func (n *Node) Leave(ctx context.Context) error {
	n.driver.Report(membership.ReportLeave{})
	v, err := n.wait(ctx, func(v membership.View) bool { return v.Left || v.Done || !v.IsMember || v.Paused })
	if err == nil && v.Paused {
		n.log.Warn("left without the others' agreement: too few of them are heard to agree on anything")
	}
	if at, held := n.worker.state.position(); held && err == nil {
		n.log.Info("left the run", "slot", at.slot, "state_root", at.root)
		n.worker.save()
	}
	return errors.Join(err, n.Close())
}

// ErrQuorum is returned by Recover while the members can decide.
var ErrQuorum = errors.New("p2pdiloco: the members can decide by themselves: there is nothing to recover from")

// Recover is the operator's order to go on without a quorum: this peer forks the run at the newest record that it knows, with the
// members it hears that are ordered to, too, or that do so by themselves; alone if there are none. What the others decide
// meanwhile is another branch, and when they are met again the one of more work wins. The order is void once there is a quorum.
func (n *Node) Recover() error {
	if v := n.driver.View(); v.Tip.Height == 0 || !v.NoQuorum {
		return ErrQuorum
	}
	n.driver.Report(membership.ReportRecover{})
	return nil
}

// fail ends the node for a fault that it cannot go on with, as a crash would: what is agreed is on the others' disks.
func (n *Node) fail(err error) {
	if t := (*TrainerError)(nil); !errors.As(err, &t) { // that is Run's to say
		n.log.Error("the node ends", "err", err)
	}
	n.fault.CompareAndSwap(nil, &err)
	n.stop()
}

// keepState makes a checkpoint of the state held: the model of an ended run is then in one file, and a restart has little to do.
func (n *Node) keepState() {
	if _, held := n.worker.state.position(); held && n.driver != nil && n.fault.Load() == nil && !n.abrupt && !n.dir.temporary {
		n.worker.save()
	}
}

// Close stops the node at once, without a word: to the others it looks like a crash. It keeps the state that is held in a
// checkpoint, and waits for all that the node started.
func (n *Node) Close() error {
	n.closing.Do(func() { n.closeErr = n.close() })
	return n.closeErr
}

func (n *Node) close() error {
	n.starting.Lock() // who starts a goroutine has done so, or will see that it is too late
	n.stop()
	n.starting.Unlock()
	var errs []error
	if n.driver != nil {
		errs = append(errs, n.driver.Close())
	}
	if n.worker != nil {
		n.worker.close()
		n.keepState()
	}
	if n.transport != nil {
		n.transport.close()
	}
	if n.server != nil {
		errs = append(errs, n.server.Close())
	}
	if n.net != nil && n.cfg.Network == nil {
		errs = append(errs, n.net.Close())
	}
	n.wg.Wait()
	if n.gated { // nothing of this run's opens a stream any more
		n.net.LiftGate()
	}
	if n.store != nil {
		errs = append(errs, n.store.Close())
	}
	return errors.Join(append(errs, n.dir.close())...)
}
