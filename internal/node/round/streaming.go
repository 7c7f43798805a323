package round

import (
	"context"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
	"github.com/p2pdiloco/p2pdiloco/internal/node/replica"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership"
	"github.com/p2pdiloco/p2pdiloco/spec"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// streamingMode is Streaming DiLoCo (arXiv 2501.18512). A slot updates one of P fragments. There is
// a border every H/P inner steps, and the slot of a border lands tau of them (Spec.FragmentDelay)
// later:
//
//	inner steps -> D of s's fragment -> offered -> tau inner steps, while slot s is reduced, agreed
//	  and applied -> s lands -> the rest of the inner steps -> D of s+1's fragment -> …
//
// D is start - live. What lands is the anchor theta, in the slot's fragment alone:
//
//	live = alpha live + (1 - alpha) theta;  start = theta
//
// With alpha 1 the live parameters stay as they are, and the start alone moves.
//
// A Trainer trains on while the reduction takes longer than tau, and the slot lands as soon as it
// is applied. When a slot lands is each peer's own affair, for only the live parameters depend on
// it.
//
// So the start is at any time the anchor that has landed here last, whatever the fragment, and one
// vector is enough for it. The rest of the live parameters goes on untouched. Exceptions:
//   - A slot that closes while its inner steps run cuts them short. It, and whatever else was
//     applied without a contribution from here, take their fragments of the live parameters to the
//     anchor, and nothing else. All inner steps to the newest slot's border follow.
//   - After a change of branch, a restart, a state that was fetched, and more than P missed slots,
//     everything starts from the newest anchor. So it does after the last slot, which lands without
//     any further inner steps.
//
// A contribution weighs the tokens that were processed since the border before its fragment landed
// last. The inner steps between the two count, although alpha 0 leaves nothing of them in that
// fragment.
type streamingMode struct {
	syncMode
	spec spec.Spec

	// of the anchor that the live parameters grew from, as the start was; the zero one: unknown
	at     replica.Edition
	tokens uint64   // processed up to the last border
	spent  []uint64 // of them by fragment, when it landed
}

func (s *streamingMode) reset() { s.at = replica.Edition{} }

// start lands what was applied while nothing is in flight, and has the anchor measured after each
// whole round.
func (s *streamingMode) start(ctx context.Context, l *Loop, m live) error {
	if l.inFlight == nil {
		if err := s.takeIn(ctx, l, m); err != nil {
			return err
		}
	}
	return m.lookAside(ctx, l.held, &l.vectors, l.held%s.spec.Fragments == 0)
}

// takeIn lands the slots that were applied since the last time.
func (s *streamingMode) takeIn(ctx context.Context, l *Loop, m live) error {
	v := &l.vectors
	slots, all := s.follow(l)
	if all {
		return m.load(ctx, v.start)
	}
	slots = slices.DeleteFunc(slots, func(at uint64) bool { return s.stays(l, at) == 1 })
	var ranges, mixed []slot.Range
	for _, at := range slots {
		ranges = append(ranges, l.fragment(at).Ranges...)
		if s.stays(l, at) > 0 {
			mixed = append(mixed, l.fragment(at).Ranges...)
		}
	}
	return m.change(ctx, v, ranges, mixed, func() {
		for _, at := range slots {
			for _, r := range l.fragment(at).Ranges {
				local := v.local[r.Begin:r.End]
				kernel.ParallelMix(local, local, v.start[r.Begin:r.End], s.stays(l, at))
			}
		}
	})
}

// follow takes the start on to the newest anchor, and says of which slots the fragments changed by
// that. all: everything may have changed.
func (s *streamingMode) follow(l *Loop) (slots []uint64, all bool) {
	l.anchor()
	before, now := s.at, l.edition
	s.at = now
	if !now.Follows(before, s.spec.Fragments) || now.Slot >= s.spec.LastSlot() {
		l.landedSlot, s.spent = 0, make([]uint64, s.spec.Fragments)
		for p := range s.spent {
			s.spent[p] = s.tokens
		}
		return nil, true
	}
	for at := before.Slot + 1; at <= now.Slot; at++ {
		slots = append(slots, at)
		s.spent[s.spec.FragmentOf(at)] = s.tokens
	}
	return slots, false
}

// stays returns how much of the live parameters stays where a slot lands. The fragment of a slot
// that was applied without an offer from here is overwritten.
func (s *streamingMode) stays(l *Loop, slotNumber uint64) float32 {
	if slotNumber != l.landedSlot {
		return 0
	}
	return s.spec.Alpha()
}

// train does the inner steps to the next border. The slot in flight lands in the midst of them.
func (s *streamingMode) train(ctx context.Context, l *Loop, task trainer.Task) (stats trainer.Stats, err error) {
	if l.inFlight == nil {
		stats, err = s.steps(ctx, l, task)
	} else {
		stats, err = s.around(ctx, l, task)
	}
	if err != nil { // what was cut short stays in the live parameters
		s.tokens += stats.Tokens
	}
	return stats, err
}

func (s *streamingMode) steps(ctx context.Context, l *Loop, task trainer.Task) (trainer.Stats, error) {
	return l.train(ctx, task, int(task.Done))
}

// around does the inner steps before and after the landing of the slot in flight.
func (s *streamingMode) around(ctx context.Context, l *Loop, task trainer.Task) (trainer.Stats, error) {
	at, stats, err := s.trainBeside(ctx, l, task)
	if err == nil {
		err = s.land(ctx, l, task)
	}
	if err != nil {
		return stats, err
	}
	rest, err := s.steps(ctx, l, task.Piece(at, task.Steps))
	stats = stats.Plus(rest)
	if err == nil {
		l.rate.whole(stats.Steps)
	}
	return stats, err
}

// trainBeside does the inner steps of a task beside the slot in flight, and says how many: tau, and
// more of them, some at a time, while the slot's reduction lasts longer. That costs what is trained
// in the slot's fragment, and nothing in the others. Standing still would cost all of them. A peer
// that is ahead of the others does wait for their offers: else it would be ahead for good. With tau
// 0 a peer waits for the outcome, too.
func (s *streamingMode) trainBeside(ctx context.Context, l *Loop, task trainer.Task) (
	at int, stats trainer.Stats, err error,
) {
	next := task.Delay
	for {
		more, err := s.steps(ctx, l, task.Piece(at, next))
		stats, at = stats.Plus(more), next
		if err != nil || at == 0 || at == task.Steps {
			return at, stats, err
		}
		if err := l.clock.while(ctx, l.planned); err != nil || l.inFlight.landed() {
			return at, stats, err
		}
		next = min(at+max(1, task.Delay/4), task.Steps)
	}
}

// land waits for the slot in flight in the midst of a task's inner steps, and takes it in.
func (s *streamingMode) land(ctx context.Context, l *Loop, task trainer.Task) error {
	err := l.clock.while(ctx, l.land)
	if err == nil {
		err = s.takeIn(ctx, l, l.model)
	}
	if err == nil && l.held+1 != task.Slot {
		err = errSlotClosed // or the slot before is still open
	}
	return err
}

func (s *streamingMode) parts(l *Loop) []slot.Range { return l.fragment(l.base + 1).Ranges }

func (s *streamingMode) weight(l *Loop, tokens uint64) uint64 {
	s.tokens += tokens
	return s.tokens - s.spent[s.spec.FragmentOf(l.base+1)]
}

func (s *streamingMode) offered(_ context.Context, l *Loop, task trainer.Task, o offered) error {
	return l.takeOff(task, o)
}

// finish waits for the slot in flight.
func (s *streamingMode) finish(ctx context.Context, l *Loop) error { return l.land(ctx) }

// finished counts the inner steps that a caller's loop has done since the border of the slot that
// has landed.
func (s *streamingMode) finished(l *Loop, trained int) {
	if task := *l.task.Load(); l.landedSlot > 0 && l.landedSlot == l.held && task.Slot == l.held+1 {
		task = task.Piece(trained, task.Steps)
		l.task.Store(&task)
	}
}

// measured counts the steps since the slot before has landed.
func (s *streamingMode) measured(r *stepRate, task trainer.Task, _ int, took time.Duration) {
	r.note(task.Steps, took)
	r.whole(int(task.Done) + task.Steps)
}

// resumes returns false, because the live parameters and the start may differ by more than the
// inner steps.
func (s *streamingMode) resumes() bool { return false }

func (s *streamingMode) Timing(t membership.Timing) membership.Timing {
	t.Beside = uint32(s.spec.Delay())
	return t
}
