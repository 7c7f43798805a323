package round

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/node/replica"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership"
	"github.com/p2pdiloco/p2pdiloco/spec"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// Loop does a peer's rounds, with a trainer (round.go) or for a caller's own loop (ownloop.go).
// Run, Anchor, Sync, Begin and Finish are for one goroutine at a time; the rest may be called from
// any.
type Loop struct {
	spec    spec.Spec
	self    slot.PeerID
	mode    Mode
	ledger  *membership.Driver
	replica *replica.Replica
	life    *Life
	gauges  *gauges
	rate    *stepRate
	clock   *clock
	task    atomic.Pointer[trainer.Task] // newest
	// when the ledger was last told of inner steps; nil: this peer does not contribute yet
	reported atomic.Pointer[time.Time]

	// These fields belong to the goroutine that runs the rounds.
	model   *model // of the trainer; nil without one
	vectors vectors
	// of the anchor that the start is; the zero one: of none, for it was moved ahead
	edition replica.Edition
	held    uint64    // slot of the anchor that the start is, or is ahead of
	root    slot.Root // of the state of that anchor
	// the newest slot that the start could have in it: a contribution is stale by those after it
	base     uint64
	anchored bool // there is an anchor to start from
	sound    bool // it was found to be finite
	// of the chain, when the start was taken: one that switched to another branch since makes it
	// void
	switches   uint64
	begun      *Round    // not finished
	inFlight   *inFlight // the contribution that is reduced beside the inner steps
	landedSlot uint64    // the newest that landed with an offer from here
}

// anchor takes the start to the newest anchor, unless the one that the next inner steps start from
// is there already, and says which it is. While no state is held the start stays at the anchor
// before.
func (l *Loop) anchor() (slotNumber uint64) {
	if l.inFlight != nil {
		return l.held
	}
	l.edition = l.replica.Follow(l.vectors.start, l.edition)
	if at := l.edition; at != (replica.Edition{}) {
		l.held, l.base, l.root = at.Slot, at.Slot, at.Root
	}
	return l.held
}

// beginAt notes from which anchor the trainer's next inner steps begin.
func (l *Loop) beginAt() {
	at := trainer.Anchor{
		Slot: l.held, Root: l.root, Step: l.spec.Border(l.held), TotalSteps: l.spec.Border(l.spec.LastSlot()),
	}
	if k, ok := l.model.Trainer.(trainer.StateKeeper); ok {
		k.BeginAt(at)
	} else {
		l.model.private.At = at
	}
}

// Config says what a Loop works with. All fields are required unless a comment says otherwise.
type Config struct {
	Spec    spec.Spec // settled
	Self    slot.PeerID
	Trainer trainer.Trainer // nil where the caller keeps its own loop, or trains nothing
	Ledger  *membership.Driver
	Replica *replica.Replica
	Life    *Life

	Emit     func(name string, fields map[string]any) // takes an event
	FS       disk.FS
	StateDir string // where the trainer's own state is kept; empty: nowhere
	Logger   *slog.Logger
}

// New makes a loop. It does nothing until one of its methods is called.
func New(cfg Config) (*Loop, error) {
	v, err := newVectors(cfg.Spec.Layout, cfg.Trainer)
	if err != nil {
		return nil, err
	}
	l := &Loop{
		spec: cfg.Spec, self: cfg.Self, mode: ModeOf(cfg.Spec), ledger: cfg.Ledger,
		replica: cfg.Replica, life: cfg.Life,
		gauges: new(gauges), rate: new(stepRate), clock: new(clock), vectors: v,
	}
	if cfg.Trainer != nil {
		l.model = &model{
			Trainer: cfg.Trainer, gauges: l.gauges, clock: l.clock, emit: cfg.Emit, slots: cfg.Spec.Fragments,
			private: trainerState{PrivateState: PrivateState{Dir: cfg.StateDir}, fs: cfg.FS, log: cfg.Logger},
		}
	}
	return l, nil
}

// SlotOpened notes that a slot has opened: its time runs from now on.
func (l *Loop) SlotOpened(slotNumber uint64) { l.rate.opened(slotNumber) }

// Stats say how the training goes.
func (l *Loop) Stats() Stats { return l.gauges.stats() }

// Times are how long the inner steps took, and how long they stood still and waited for others.
func (l *Loop) Times() (training, stalled time.Duration) {
	return time.Duration(l.clock.trained.Load()), time.Duration(l.clock.stalled.Load())
}

// Wait returns the first view of the ledger that satisfies the condition.
func (l *Loop) Wait(ctx context.Context, wanted func(membership.View) bool) (membership.View, error) {
	if l.life.Over() {
		return membership.View{}, l.ended()
	}
	v, err := l.ledger.WaitView(ctx, wanted)
	if err != nil && ctx.Err() == nil && l.life.Over() {
		err = l.ended()
	}
	return v, err
}

// ended says why the node is closed.
func (l *Loop) ended() error { return l.life.Err(l.ledger.Err()) }
