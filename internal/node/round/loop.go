package round

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
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

// ErrClosed is returned by calls on a node that was closed. It unwraps to net.ErrClosed.
var ErrClosed = fmt.Errorf("p2pdiloco: node is closed: %w", net.ErrClosed)

// ErrGivenUp ends a node whose run nobody but its founder ever was in, for another run of the name.
// Close it, and Join again with the same configuration: that looks for the other run.
var ErrGivenUp = errors.New("p2pdiloco: this peer gives its run up")

// Life is the lifetime of one node. Its methods may be called from any goroutine.
type Life struct {
	log   *slog.Logger
	began time.Time
	ctx   context.Context // ends with the node
	stop  context.CancelFunc
	fault atomic.Pointer[error] // why the node ended by itself
	mu    sync.Mutex            // held where wg grows while the node may be closed
	wg    sync.WaitGroup
}

// NewLife begins one.
func NewLife(log *slog.Logger) *Life {
	l := &Life{log: log, began: time.Now()}
	l.ctx, l.stop = context.WithCancel(context.Background())
	return l
}

// Context returns a context that ends with the node.
func (l *Life) Context() context.Context { return l.ctx }

// Age is the time since NewLife.
func (l *Life) Age() time.Duration { return time.Since(l.began) }

// Over says whether the node is closed, or has ended by itself.
func (l *Life) Over() bool { return l.ctx.Err() != nil }

// Go runs f in a goroutine, unless the life is over. f must return when Context ends.
func (l *Life) Go(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.Over() {
		return false
	}
	l.wg.Go(f)
	return true
}

// Fail ends the node for a fault that it cannot go on with, as a crash would: what is agreed is on
// the others' disks.
func (l *Life) Fail(err error) {
	if t := (*trainer.Error)(nil); !errors.As(err, &t) && !errors.Is(err, ErrGivenUp) {
		// else the caller of Run gets it
		l.log.Error("the node ends", "err", err)
	}
	l.fault.CompareAndSwap(nil, &err)
	l.stop()
}

// Failed says whether Fail has ended the node.
func (l *Life) Failed() bool { return l.fault.Load() != nil }

// End ends the life in order. A goroutine that is being started has begun, or will not begin.
func (l *Life) End() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stop()
}

// Wait waits for the goroutines that Go has started, once the life is over.
func (l *Life) Wait() { l.wg.Wait() }

// Err says why a life that is over has ended: the fault, or ErrClosed and the cause, if there is
// one.
func (l *Life) Err(cause error) error {
	if fault := l.fault.Load(); fault != nil {
		return faultError{*fault}
	}
	return errors.Join(ErrClosed, cause)
}

// faultError is the reason why a node ended by itself. It is also ErrClosed, and its text does not
// repeat that.
type faultError struct{ error }

func (e faultError) Unwrap() error        { return e.error }
func (e faultError) Is(target error) bool { return errors.Is(ErrClosed, target) }
