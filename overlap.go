package p2pdiloco

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/p2pdiloco/p2pdiloco/outeropt"
)

// Modes of a run (Spec.Mode).
const (
	ModeSync    = "sync"    // the trainer waits until its slot is applied
	ModeDelayed = "delayed" // overlapped: keeps its own progress, and others' steps come a slot late
	ModeEager   = "eager"   // overlapped: takes its own part of the outer step at once, and the others' a slot late
	ModeAsync   = "async"   // eager, and no slot waits for who is slow: by default each does the inner steps that its speed allows
)

// In the overlapped modes the reduction of a slot runs beside the next inner steps (Eager Updates, arXiv 2502.12996):
//
//	inner steps of s -> D_s -> slot s-1 is settled -> D_s is offered -> start from anchor s-1 and D_s -> inner steps of s+1 -> D_s+1 -> …
//	                                                  '------------ slot s is reduced, agreed and applied --------------'
//
// The anchor steps as ever, on all peers alike; what is ahead of it is private:
//
//	delayed  start = anchor - D_s
//	eager    w = mu w + D_s;  start = anchor - lr/M (D_s + mu w), of M contributors: the outer step, of this peer's part alone
//	async    as eager
//
// A pseudo-gradient is counted from the start that it grew from, so nothing is counted twice. What becomes of the private start:
//   - a slot that closes while its inner steps run cuts them short, and one that closes without an offered contribution spends that:
//     as in mode sync. The next round starts from the newest anchor in the first case, and as ever in the second;
//   - in mode async the next start waits a moment for the slot where that is likely to be enough (tarry.go);
//   - in mode async an offered contribution that its slot closed without stands for the next slots, discounted, until one takes it or it
//     is too stale; the newer one waits behind it;
//   - after a change of branch, a restart, or a contribution that was too late, the next round starts from the newest anchor;
//   - a pseudo-gradient that is not finite ends the Run, as in mode sync; what was offered before it stands;
//   - after the last slot's inner steps nothing is left to train: the round waits until that slot is applied.
//
// A round beside a slot has the members of the moment at which that slot's contribution was offered.

// overlaps says whether the run's mode is an overlapped one.
func (n *Node) overlaps() bool { return n.spec.Overlaps() }

// flight is a contribution under way.
type flight struct {
	slot  uint64
	peers int // that contribute
	ahead bool
	done  chan struct{} // closed when the slot is applied, or the contribution stands no more
	err   error         // once done
}

// takeOff watches the contribution that was offered for task's slot, and makes the task of the round beside it.
func (n *Node) takeOff(task Task, root Root) error {
	n.starting.Lock()
	defer n.starting.Unlock()
	if n.closed.Err() != nil {
		return n.ended()
	}
	f := &flight{slot: task.Slot, peers: n.contributors(), done: make(chan struct{})}
	moves := n.moves
	n.wg.Go(func() { // Close ends it
		defer close(f.done)
		f.err = n.decided(context.Background(), f.slot, moves, root)
	})
	n.flight, n.base = f, f.slot
	task.Slot++
	v := n.driver.View()
	task.Steps = n.paced(v, task.Slot)
	task.deal(v)
	n.task.Store(&task)
	return nil
}

// land waits for the contribution under way, if there is one.
func (n *Node) land(ctx context.Context) error {
	f := n.flight
	if f == nil {
		return nil
	}
	select {
	case <-f.done:
		n.flight, n.landing.slot = nil, f.slot
		return f.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// landed says whether land would return at once.
func (n *Node) landed() bool {
	select {
	case <-n.flight.done:
		return true
	default:
		return false
	}
}

// drains says whether the last slot's contribution is under way.
func (n *Node) drains() bool { return n.flight != nil && n.flight.slot >= n.spec.LastSlot() }

// contributors is how many peers the open slot may have contributions of, as far as it is known here.
func (n *Node) contributors() (m int) {
	v := n.driver.View()
	for _, p := range v.Members {
		if p.Contributes && !p.Lost || p.Peer == n.Self() {
			m++
		}
	}
	if v.AppliedSlot == 0 { // it waits for them
		m = max(m, int(n.spec.StartPeers))
	}
	return max(m, 1)
}

// ahead moves the anchor in n.start on by the contribution under way, whose pseudo-gradient is in n.local: once.
func (n *Node) ahead() {
	f := n.flight
	if f == nil || f.ahead {
		return
	}
	f.ahead = true
	if n.spec.Mode == ModeDelayed {
		subtract(n.start, n.start, n.local)
		return
	}
	n.eager.step(n.spec.outer(), f.peers, n.start, n.local)
}

// eager is the outer optimizer's step of one peer's part. Its momentum w is of what this peer has offered since its process started.
type eager struct {
	peers int
	outer outeropt.Optimizer
	steps uint64 // it has done
}

func (e *eager) step(cfg outeropt.Config, peers int, start, gradient []float32) {
	if e.outer == nil || e.peers != peers {
		cfg.LR /= float32(peers)
		outer, err := outeropt.New(cfg, uint64(len(start)))
		if err != nil {
			panic(err) // the same but for the rate, that steps the anchor
		}
		if e.outer != nil {
			for i, v := range outer.State() {
				copy(v, e.outer.State()[i])
			}
		}
		e.peers, e.outer = peers, outer
	}
	e.steps++
	outerStep(e.outer, start, gradient, outeropt.At{Step: e.steps})
}

// idle is the time that the trainer stood still and waited for others.
type idle struct {
	since time.Time     // zero: it does not
	last  time.Duration // since the trainer's newest statistics
	total atomic.Int64  // nanoseconds
}

func (i *idle) begin() { i.since = time.Now() }

func (i *idle) end() {
	if i.since.IsZero() {
		return
	}
	i.add(time.Since(i.since))
	i.since = time.Time{}
}

func (i *idle) add(d time.Duration) {
	i.last += d
	i.total.Add(int64(d))
}

// Overlaps says whether a settled spec's mode is an overlapped one.
func (s Spec) Overlaps() bool {
	return slices.Contains([]string{ModeDelayed, ModeEager, ModeAsync}, s.Mode)
}

// outer is the outer optimizer of a settled spec.
func (s Spec) outer() outeropt.Config {
	return outeropt.Config{Name: s.Outer, LR: s.float(s.OuterLR), Momentum: s.float(s.Momentum), Beta2: s.float(s.Beta2), Every: s.DNEvery}
}
