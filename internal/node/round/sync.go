package round

import (
	"cmp"
	"context"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// syncMode is DiLoCo (arXiv 2311.08105), with theta the anchor:
//
//	D = start - local            this peer's pseudo-gradient, after H inner steps
//	g = aggregate(D of all)
//	theta = outer step of g      Nesterov: v = mu v + g;  theta -= lr (g + mu v)
//	start = theta
//
// A slot that closes while its inner steps run cuts them short, if the run takes nothing so stale.
// An offered contribution that its slot closed without stands for the next slots, as far as
// Spec.Discount goes, and the next inner steps start at once from the new anchor. If they are done
// before a slot has taken the older contribution, the newer one takes its place: it counts for
// more, and a peer that waited instead would train nothing for a slot.
//
// The other modes that move the whole vector take from it what they do alike.
type syncMode struct{}

// start loads the anchor.
func (syncMode) start(ctx context.Context, l *Loop, m live) error {
	return m.look(ctx, l.anchor(), l.vectors.start, true)
}

func (syncMode) reset() {}

func (syncMode) train(ctx context.Context, l *Loop, task trainer.Task) (trainer.Stats, error) {
	return l.train(ctx, task, 0)
}

func (syncMode) parts(*Loop) []slot.Range { return nil }

func (syncMode) weight(_ *Loop, tokens uint64) uint64 { return tokens }

func (syncMode) enters(_ *Loop, task trainer.Task) uint64 { return task.Slot }

// offered waits until the slot is applied here. Where ctx ends before, the contribution stays in
// flight, and the next round waits for it.
func (syncMode) offered(ctx context.Context, l *Loop, _ trainer.Task, o offered) error {
	if err := l.watch(o); err != nil {
		return err
	}
	return l.land(ctx)
}

func (syncMode) over(v membership.View, _ offered) bool { return current(v) }

func (syncMode) finish(context.Context, *Loop) error { return nil }

func (syncMode) finished(*Loop, int) {}

// measured counts the steps that the loop has reported, or all if it reported none. The loop may
// offer early.
func (syncMode) measured(r *stepRate, task trainer.Task, told int, took time.Duration) {
	r.note(cmp.Or(told, task.Steps), took)
}

func (syncMode) resumes() bool { return true }

func (syncMode) Timing(t membership.Timing) membership.Timing { return t }

func (syncMode) Lead() uint64 { return 0 }
