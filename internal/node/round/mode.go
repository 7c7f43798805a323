package round

import (
	"context"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership"
	"github.com/p2pdiloco/p2pdiloco/spec"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// Mode is how the rounds of a run follow each other (Spec.Mode). It says where the next inner steps
// start, when a slot's result lands in the live parameters, and what a contribution weighs. Each of
// the five modes has a file, with its equations at the top. All peers of a run have the same mode,
// and the anchor steps alike on all of them in every mode.
type Mode interface {
	// start brings the live parameters to where the next inner steps start.
	start(ctx context.Context, l *Loop, m live) error
	// reset forgets what is known of the live parameters: others may have changed them.
	reset()
	// train does a task's inner steps. A slot may land in the middle of them.
	train(ctx context.Context, l *Loop, task trainer.Task) (trainer.Stats, error)

	// parts returns the parts of the live parameters that the next contribution is made of; nil:
	// all.
	parts(l *Loop) []slot.Range
	// weight returns the weight of the next contribution. tokens are those since the one before.
	weight(l *Loop, tokens uint64) uint64
	// enters returns the slot that a contribution is offered for, if task is that of the open slot.
	enters(l *Loop, task trainer.Task) uint64
	// offered returns when the next inner steps may start, after a contribution was offered.
	offered(ctx context.Context, l *Loop, task trainer.Task, o offered) error
	// over says that this peer need not wait any more for an offer after its slot is past.
	over(v membership.View, o offered) bool

	loopMode

	// Timing changes the ledger's timers as the mode needs it.
	Timing(t membership.Timing) membership.Timing
	// Lead returns how many slots the next round is ahead of the newest one agreed.
	Lead() uint64
}

// loopMode is the part of a mode for callers that keep their own training loop (ownloop.go).
type loopMode interface {
	// finish waits for the slots that Finish has to land.
	finish(ctx context.Context, l *Loop) error
	// finished notes how many inner steps after Begin Finish came.
	finished(l *Loop, trained int)
	// measured takes in how long the inner steps before Begin took. told is how many of them the
	// loop has told of; 0: it told of none.
	measured(r *stepRate, task trainer.Task, told int, took time.Duration)
	// resumes says whether a round that was given up may be begun again from the same parameters.
	resumes() bool
}

// ModeOf returns the mode of a settled spec.
func ModeOf(s spec.Spec) Mode {
	switch s.Mode {
	case spec.ModeDelayed:
		return newDelayed()
	case spec.ModeEager:
		return newEager(s.OuterConfig())
	case spec.ModeAsync:
		return asyncMode{newEager(s.OuterConfig())}
	case spec.ModeStreaming:
		return &streamingMode{spec: s}
	}
	return syncMode{}
}
