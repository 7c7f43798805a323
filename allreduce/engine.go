package allreduce

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/p2pdiloco/p2pdiloco/allreduce/internal/plan"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

var (
	// ErrClosed is what calls on a closed engine or a released reduction return.
	ErrClosed = fmt.Errorf("allreduce: %w", net.ErrClosed)
	// ErrNotInGroup says that the plan has no offer of this peer: it takes no part and fetches the
	// outcome afterwards.
	ErrNotInGroup = errors.New("allreduce: this peer is not in the group")
)

// Transport opens streams to peers. Incoming streams are handed to Engine.Accept.
type Transport interface {
	// Open returns a new stream to a peer, or an error once the peer cannot be reached: the engine
	// does not try again.
	Open(ctx context.Context, peer slot.PeerID) (wire.Stream, error)
}

// Config is what an engine is made of. Self, Run, Params and Transport are required; the rest has
// defaults.
type Config struct {
	Self      slot.PeerID
	Run       slot.Root // run ID: streams of other runs are refused
	Params    Params
	Transport Transport
	Logger    *slog.Logger // silent by default

	// Stall is for how long a peer may show no life before it is lost; default 15 s. A peer that is
	// alive but whose counts do not rise is lost after twice that if it owes data, and an owner
	// after four times. A stream may wait for its plan as long.
	Stall time.Duration
	// Known, if set, says whether a plan may name a peer: a member. All other peers together get an
	// eighth of the places where streams wait for a plan, so that they cannot keep the group's
	// streams out. It must not block.
	Known func(slot.PeerID) bool
	// Reduced is for tests of whole nodes: it takes the values of each frame that is reduced here,
	// and may change them. Usually nil.
	Reduced func(slot uint64, frame int, values []float32)
}

func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Stall <= 0 {
		c.Stall = 15 * time.Second
	}
	return c
}

// Validate reports every fault at once.
func (c Config) Validate() error {
	var faults []error
	if c.Self == "" {
		faults = append(faults, errors.New("allreduce: Config.Self is empty"))
	}
	if c.Transport == nil {
		faults = append(faults, errors.New("allreduce: Config.Transport is nil"))
	}
	return errors.Join(append(faults, c.Params.Validate())...)
}

// Engine takes part in one reduction at a time.
type Engine struct {
	cfg    Config
	grids  []plan.Grid // of the contributions to each fragment
	outs   []plan.Grid // of the outcomes
	lanes  *lanes
	frames sync.Pool // of *frame: rooms of frames are used again
	joint  sync.Pool // of *[outBytes]byte: what links put together
	coders *coders
	meter  *meter

	partials sync.Pool // of *partial: rooms of partial results, likewise

	raw, reduced packer // of frames that are sent

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup // Accept calls and reductions

	together int           // link.together of all streams; tests have less
	hearsay  time.Duration // how much later than a peer this one may hear of a plan
	// streams that may wait for a plan or say hello, of all and of one peer; tests have less
	maxPending, maxPendingPeer int

	mu struct {
		sync.Mutex
		closed  bool
		current *Reduction
		changed chan struct{} // closed and replaced when current changes
		pending map[slot.PeerID]int
		waiting int    // sum of pending
		unknown int    // of these, of peers that are not known
		spare   []byte // a released result buffer
	}
}

// New makes an engine.
func New(cfg Config) (*Engine, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	e := &Engine{
		cfg: cfg, lanes: newLanes(lanesAtOnce, cfg.Stall), hearsay: cfg.Stall / 16, together: outBytes,
		meter: newMeter(), maxPending: 1024, maxPendingPeer: 16,
	}
	for p := range cfg.Params.Fragments {
		e.grids = append(e.grids, plan.NewGrid(cfg.Params, uint32(p)))
		e.outs = append(e.outs, plan.OutcomeGrid(cfg.Params, uint32(p)))
	}
	e.coders = newCoders()
	e.raw.coders, e.reduced.coders = e.coders, e.coders
	e.frames.New = func() any { return new(frame) }
	e.joint.New = func() any { return new([outBytes]byte) }
	e.partials.New = func() any { return new(partial) }
	e.ctx, e.cancel = context.WithCancel(context.Background())
	e.mu.changed = make(chan struct{})
	e.mu.pending = make(map[slot.PeerID]int)
	return e, nil
}

// Start takes part in the reduction by plan next, as contributor and as owner, until it is
// released, replaced by another Start, or ctx ends. own must be what this peer's offer in the plan
// commits to. Calls for older plans than the running one are the caller's to avoid: the newest call
// wins. Call it from one goroutine at a time.
//
// A plan of the running group (slot.Plan.Group) revises that reduction in place, and returns it:
// pieces that the plan leaves as they are go on, and sink, which takes the place of the one before,
// hears again of the own ranges that are closed. Another group's plan replaces the reduction: its
// streams are reset. A group in which this peer is gone is ended, with ErrNotInGroup.
func (e *Engine) Start(ctx context.Context, next slot.Plan, own *Contribution, sink Sink) (*Reduction, error) {
	if err := plan.Check(e.cfg.Params, next); err != nil {
		return nil, err
	}
	old := e.running()
	again := old != nil && old.group == next.Group() && old.ctx.Err() == nil
	self := next.Place(e.cfg.Self)
	switch {
	case self < 0 || next.Gone.Has(self):
		if again {
			old.cancel()
		}
		return nil, ErrNotInGroup
	case again:
		err := old.revise(next, sink)
		e.mu.Lock()
		defer e.mu.Unlock()
		e.wake()
		return old, err
	case own == nil || own.root != next.Offers[self].Root:
		return nil, errors.New("allreduce: the contribution is not the one that was offered")
	}
	r := newReduction(ctx, e, next, own, sink)
	if err := e.replace(r); err != nil {
		r.cancel()
		own.Drop()
		return nil, err
	}
	if old != nil {
		old.cancel()
	}
	return r, nil
}

// open opens a stream to a peer, which has as long for that as for any sign of life.
func (e *Engine) open(ctx context.Context, to slot.PeerID) (wire.Stream, error) {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.Stall)
	defer cancel()
	return e.cfg.Transport.Open(ctx, to)
}

// running is the reduction that was started last, if any.
func (e *Engine) running() *Reduction {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.mu.current
}

// replace makes r the running reduction.
func (e *Engine) replace(r *Reduction) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mu.closed {
		return ErrClosed
	}
	e.mu.current = r
	e.wg.Add(1)
	r.result, r.hashes = e.takeBuffer(r.out.TotalBytes), make([]slot.Root, r.out.Frames)
	r.came = make(chan int, r.out.Frames)
	r.run() // within the lock: no stream can join before all is in place
	e.wake()
	return nil
}

// wake lets the streams that wait for a plan look again. The caller holds mu.
func (e *Engine) wake() {
	close(e.mu.changed)
	e.mu.changed = make(chan struct{})
}

// takeBuffer returns a result buffer. The caller holds mu.
func (e *Engine) takeBuffer(size int) []byte {
	b := e.mu.spare
	e.mu.spare = nil
	if cap(b) < size { // fragments differ by an element
		b = make([]byte, size)
	}
	return b[:size]
}

// Close ends the running reduction and waits for all goroutines, Accept calls included. It must not
// be called from a Sink.
func (e *Engine) Close() error {
	e.mu.Lock()
	e.mu.closed = true
	r := e.mu.current
	e.mu.Unlock()
	e.cancel()
	if r != nil {
		r.cancel()
	}
	e.wg.Wait()
	return nil
}
