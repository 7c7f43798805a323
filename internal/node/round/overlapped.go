package round

import (
	"context"

	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
	"github.com/p2pdiloco/p2pdiloco/internal/node/replica"
	"github.com/p2pdiloco/p2pdiloco/membership"
	"github.com/p2pdiloco/p2pdiloco/outeropt"
	"github.com/p2pdiloco/p2pdiloco/spec"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// overlapped is what modes delayed, eager and async share. The reduction of a slot runs beside the
// next inner steps (Eager Updates, arXiv 2502.12996):
//
//	inner steps of s -> D_s -> slot s-1 has landed -> D_s is offered -> start from anchor s-1 and D_s
//	  -> inner steps of s+1, while slot s is reduced, agreed and applied -> D_s+1 -> …
//
// The anchor steps as in mode sync, on all peers alike. What the start is ahead of it is private to
// this peer. A pseudo-gradient is counted from the start that it grew from, so nothing is counted
// twice. What becomes of the private start:
//   - A slot that closes while its inner steps run cuts them short, if the run takes nothing so
//     stale, and the next round starts from the newest anchor.
//   - An offered contribution that its slot closed without stands for the next slots, discounted by
//     its staleness (Spec.Discount), until one takes it or it is too stale. The newer one waits
//     behind it. With the default discount it is too stale at once. Either way the next round
//     starts as ever.
//   - After a change of branch, a restart, or a contribution that was too late, the next round
//     starts from the newest anchor.
//   - A pseudo-gradient that is not finite ends the Run, as in mode sync. What was offered before
//     it stands.
//   - After the last slot's inner steps nothing is left to train: the round waits until that slot
//     is applied.
//
// A round beside a slot has the members of the moment at which that slot's contribution was
// offered.
type overlapped struct {
	syncMode
	// ahead moves the anchor in start on by the contribution f in flight, whose pseudo-gradient is
	// own.
	ahead func(start, own []float32, f *inFlight)
}

// start loads the anchor, moved ahead by the contribution in flight. The anchor itself is measured.
func (o overlapped) start(ctx context.Context, l *Loop, m live) error {
	v, f := &l.vectors, l.inFlight
	if f == nil || !f.ahead {
		if err := m.look(ctx, l.anchor(), v.start, f == nil); err != nil || f == nil {
			return err
		}
		f.ahead, l.edition = true, replica.Edition{}
		o.ahead(v.start, v.local, f)
	}
	return m.load(ctx, v.start)
}

// enters returns the slot after the anchor that the next inner steps start from. Another slot may
// have been applied meanwhile.
func (overlapped) enters(l *Loop, _ trainer.Task) uint64 { return l.anchor() + 1 }

func (overlapped) offered(_ context.Context, l *Loop, task trainer.Task, o offered) error {
	return l.takeOff(task, o)
}

// over is false for an offer that stands for a later slot.
func (overlapped) over(v membership.View, o offered) bool {
	return current(v) && (v.ChainSwitches != o.switches || !stands(v, o.root))
}

// resumes returns false, because the start has moved on.
func (overlapped) resumes() bool { return false }

func (overlapped) Timing(t membership.Timing) membership.Timing {
	t.Beside = spec.MaxSteps
	return t
}

func (overlapped) Lead() uint64 { return 1 }

// Mode delayed starts from the anchor with this peer's own progress in it (arXiv 2502.12996, with
// the state shared):
//
//	start = theta - D_s
//
// theta steps with the previous slot's g when that arrives.
func newDelayed() overlapped {
	return overlapped{ahead: func(start, own []float32, _ *inFlight) { kernel.ParallelSub(start, start, own) }}
}

// Mode eager starts from the anchor with this peer's part of the outer step in it, of M
// contributors (arXiv 2502.12996). w is private to the peer:
//
//	w = mu w + D_s;  start = theta - lr/M (D_s + mu w)
//
// The paper's form gives each peer an outer state of its own, and so a model of its own. Here
// (theta, v) is shared and steps only on the previous slot's g, as in every mode. The trajectory is
// the same.
func newEager(cfg outeropt.Config) overlapped {
	return overlapped{ahead: (&eagerStep{cfg: cfg}).step}
}

// eagerStep is the outer optimizer's step of one peer's part. Its momentum w is of what this peer
// has offered since its process started. In delayed_nesterov each contribution brings lr/N of its
// gradient, and the momentum is the anchor's alone.
type eagerStep struct {
	cfg   outeropt.Config
	peers int
	outer *outeropt.Optimizer
}

func (e *eagerStep) step(start, own []float32, f *inFlight) {
	if e.outer == nil || e.peers != f.peers {
		cfg := e.cfg
		if cfg.Name == outeropt.DelayedNesterov {
			cfg = outeropt.Config{Name: outeropt.SGD, LR: cfg.LR / float32(cfg.Every)}
		} else {
			cfg.LR /= float32(f.peers)
		}
		outer, err := outeropt.New(cfg, uint64(len(start)))
		if err != nil {
			panic(err) // the same but for the rate, that steps the anchor
		}
		if e.outer != nil {
			for i, v := range outer.State() {
				copy(v, e.outer.State()[i])
			}
		}
		e.peers, e.outer = f.peers, outer
	}
	outeropt.Step(e.outer, start, own, outeropt.At{Step: f.slot})
}
