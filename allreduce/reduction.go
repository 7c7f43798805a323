package allreduce

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/p2pdiloco/p2pdiloco/allreduce/internal/plan"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// Reduction is one group's plan being carried out, through all its revisions.
type Reduction struct {
	engine *Engine
	grid   plan.Grid // of the contributions to the plan's fragment
	out    plan.Grid // of its outcome
	group  slot.Root // slot.Plan.Group
	slot   uint64
	offers []slot.Offer
	usual  uint64 // weight; see slot.Weighing
	self   int    // place in the group
	own    *Contribution
	result []byte      // encoded outcome of the whole fragment; each piece has one writer
	hashes []slot.Root // of the frames of result that are there
	came   chan int    // these frames, for Next; full only where pieces came twice

	schedule schedule // mu guards what it keeps

	ctx      context.Context
	cancel   context.CancelFunc
	wg       sync.WaitGroup // all goroutines and joined streams
	sent     atomic.Uint64
	received atomic.Uint64
	ranges   atomic.Int32 // that were opened in own pieces

	// held for reading while bytes are lent (Hold, Next), for writing when pieces lose their owner,
	// or the buffer goes to the next reduction; taken before mu
	reading sync.RWMutex
	mu      struct {
		sync.Mutex
		plan       slot.Plan
		sink       Sink
		ended      bool // nothing may join any more
		released   bool
		reassigned bool                   // a piece has lost its owner, and comes once more
		lost       map[slot.PeerID]Reason // told to the sink
		complete   chan struct{}          // closed when every piece is in result
		settled    chan struct{}          // closed when every piece is in result or will not come
	}
}

func newReduction(ctx context.Context, e *Engine, plan slot.Plan, own *Contribution, sink Sink) *Reduction {
	r := &Reduction{
		engine: e, group: plan.Group(), slot: plan.Slot, offers: plan.Offers, usual: plan.Usual,
		self: plan.Place(e.cfg.Self), own: own,
	}
	r.grid, r.out = e.grids[plan.Fragment], e.outs[plan.Fragment]
	if len(plan.Ring) > 0 {
		r.schedule = &rings{r: r, round: make(map[slot.Piece]*roundPiece)}
	} else {
		r.schedule = newRotation(r)
	}
	r.mu.plan, r.mu.sink = plan, sink
	r.mu.lost = make(map[slot.PeerID]Reason)
	r.mu.complete, r.mu.settled = make(chan struct{}), make(chan struct{})
	r.ctx, r.cancel = context.WithCancel(ctx)
	own.Hold()
	return r
}

// run starts all goroutines.
func (r *Reduction) run() {
	r.mu.Lock()
	r.schedule.start()
	r.mu.Unlock()
	go func() {
		defer r.engine.wg.Done()
		<-r.ctx.Done()
		r.mu.Lock()
		r.mu.ended = true
		r.mu.Unlock()
		r.wg.Wait()
	}()
}

// attach gives a peer's stream its input. The stream then counts as one of the piece's goroutines.
// errEarly says that the stream is of a plan that has not arrived here.
func (r *Reduction) attach(from slot.PeerID, h hello) (guest, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.mu.plan.Place(from)
	switch {
	case r.mu.ended:
		return nil, ErrClosed
	case !h.Ring && (at < 0 || at == r.self || h.Frames != uint32(r.grid.Frames)):
		return nil, fmt.Errorf("%w: %s is not in the group", errUnwanted, from.Short())
	}
	in, err := r.schedule.attach(from, h)
	switch {
	case err != nil:
		return nil, err
	case in == nil && !outdated(h, r.mu.plan):
		return nil, errEarly
	case in == nil:
		return nil, fmt.Errorf("%w: the piece or circle that it is for does not run here", errUnwanted)
	}
	r.received.Add(helloSize)
	return in, nil
}

// lose tells the sink of a failed peer, once. What fails because the reduction is over is no
// failure.
func (r *Reduction) lose(peer slot.PeerID, reason Reason, err error) {
	r.mu.Lock()
	tell := r.ctx.Err() == nil && r.mu.lost[peer] == 0
	if tell {
		r.mu.lost[peer] = reason
	}
	sink, revision := r.mu.sink, r.mu.plan.Revision
	r.mu.Unlock()
	if tell {
		r.engine.cfg.Logger.Warn("peer lost in all-reduce", "peer", peer.String(), "slot", r.slot,
			"revision", revision, "reason", reason.String(), "err", err)
		sink.Lost(peer, reason, err)
	}
}

// lastWord says whether the piece that ctx belongs to has ended. Where a connection failed it gives
// the ledger a moment to say so: the peer may have heard before this one of a plan in which the
// piece is not its owner's any more, and that is no failure.
func (r *Reduction) lastWord(ctx context.Context, reason Reason) bool {
	if reason != Connection || ctx.Err() != nil {
		return ctx.Err() != nil
	}
	timer := time.NewTimer(r.engine.hearsay)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return true
	case <-timer.C:
		return false
	}
}

// link wraps a stream of the reduction and has it reset when ctx ends. Call stop once the stream is
// closed and nobody reads or writes any more.
func (r *Reduction) link(ctx context.Context, s wire.Stream) (l *link, stop func()) {
	out := r.engine.joint.Get().(*[outBytes]byte)
	l = &link{s: s, stall: r.engine.cfg.Stall, sent: &r.sent, received: &r.received}
	l.out, l.together = out[:0], r.engine.together
	unwatch := context.AfterFunc(ctx, func() { _ = s.Reset() })
	return l, func() {
		unwatch()
		r.engine.joint.Put(out)
	}
}

// tally closes what waits for the end of all pieces. mu is held.
func (r *Reduction) tally() {
	complete, settled := true, true
	for _, piece := range r.mu.plan.Pieces {
		s := r.schedule.status(piece)
		complete, settled = complete && s == pieceDone, settled && s != pieceOpen
	}
	r.mu.complete, r.mu.settled = mark(r.mu.complete, complete), mark(r.mu.settled, settled)
}

// mark closes a channel, or replaces a closed one by an open one.
func mark(c chan struct{}, closed bool) chan struct{} {
	switch was := isClosed(c); {
	case closed && !was:
		close(c)
	case was && !closed:
		return make(chan struct{})
	}
	return c
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Leaves is what a peer's contribution commits to, of each frame of the fragment, not copied: of
// this peer itself, and of those that have sent theirs here, which are checked against the root
// that was offered. The norms are claims; those of the frames that were reduced here are true.
func (r *Reduction) Leaves(peer slot.PeerID) (leaves []slot.FrameLeaf, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch i := r.mu.plan.Place(peer); {
	case i < 0:
	case i == r.self:
		leaves = r.own.leaves
	default: // in a ring no peer sees another one's contribution
		if rot, ok := r.schedule.(*rotation); ok {
			leaves = rot.seen[i]
		}
	}
	return leaves, leaves != nil
}

// Plan is the plan being carried out: the newest revision.
func (r *Reduction) Plan() slot.Plan {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.plan
}

// Complete is closed when every piece of the plan is in the result and the sink has heard of the
// own ones. The reduction may still be sending to others. After a revision that moves pieces ask
// again.
func (r *Reduction) Complete() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.complete
}

// Settled is closed when every piece of the plan is in the result or will not come by this plan:
// its owner was lost here. After a revision that moves pieces ask again.
func (r *Reduction) Settled() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.settled
}

// Traffic is the number of bytes sent and received so far, headers included.
func (r *Reduction) Traffic() (sent, received uint64) { return r.sent.Load(), r.received.Load() }

// frames are the encoded outcome of a range that begins and ends on the frame grid, not copied;
// none while a piece that it touches is incomplete. The bytes hold until Release, or until a
// revision gives a part of the range to another owner: where one may come, use Hold.
func (r *Reduction) frames(rng slot.Range) (none slot.Frames) {
	g := r.out
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.released || !g.OnGrid(rng) {
		return none
	}
	for _, p := range r.mu.plan.Pieces {
		if p.Range.Begin < rng.End && rng.Begin < p.Range.End && r.schedule.status(p) != pieceDone {
			return none
		}
	}
	first, last := g.FramesOf(rng)
	return slot.Frames{Bytes: g.Bytes(r.result, first, last), Hashes: r.hashes[first:last]}
}

// Hold returns the encoded outcome of each of the ranges, which begin and end on the frame grid,
// with the hashes that its frames got as they were made or came; not copied, and nil where a piece
// that it touches is incomplete. Until done is called, which must be, the bytes stay as they are:
// Release does not give them to another reduction, and a revision that gives them to another owner
// waits.
func (r *Reduction) Hold(ranges []slot.Range) (encoded []slot.Frames, done func()) {
	r.reading.RLock()
	encoded = make([]slot.Frames, len(ranges))
	for i, rng := range ranges {
		encoded[i] = r.frames(rng)
	}
	return encoded, r.reading.RUnlock
}

// Next waits for a frame of the outcome and lends it until done is called, which must be soon. It
// gives each frame once, by its index, as soon as it is there. ok is false at the end of ctx or of
// the reduction, and once a piece has lost its owner: from then on Hold says what stands.
func (r *Reduction) Next(ctx context.Context) (index int, frame slot.Frames, done func(), ok bool) {
	select {
	case index = <-r.came:
	case <-ctx.Done():
		return 0, frame, nil, false
	case <-r.ctx.Done():
		return 0, frame, nil, false
	}
	r.reading.RLock()
	r.mu.Lock()
	gone := r.mu.released || r.mu.reassigned
	r.mu.Unlock()
	if gone {
		r.reading.RUnlock()
		return 0, frame, nil, false
	}
	frame = slot.Frames{Bytes: r.out.Frame(r.result, index), Hashes: r.hashes[index : index+1]}
	return index, frame, r.reading.RUnlock, true
}

// hashed notes that frame f is in the result.
func (r *Reduction) hashed(f int) {
	r.hashes[f] = slot.Hash(r.out.Frame(r.result, f))
	select {
	case r.came <- f:
	default:
	}
}

// Retire lets a reduction whose slot is decided, and whose bytes nobody here uses any more, end by
// itself: peers on slow links get the rest of what this owner owes them, nothing new joins, and the
// sink hears no more. Release and the next Start end it at once.
func (r *Reduction) Retire() {
	r.mu.Lock()
	r.mu.ended, r.mu.sink = true, deaf{}
	r.mu.Unlock()
	e := r.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mu.closed {
		return // Close ends it
	}
	e.wg.Go(func() {
		r.wg.Wait()
		r.Release()
	})
}

// Release ends the reduction, waits for its goroutines and gives its result buffer to the next
// Start. Call it once the slot is decided and its bytes are not used any more: peers that still
// lack pieces of this owner must fetch them elsewhere.
func (r *Reduction) Release() {
	r.cancel()
	r.mu.Lock()
	again := r.mu.released
	r.mu.ended, r.mu.released = true, true
	r.mu.Unlock()
	r.wg.Wait()
	if again {
		return
	}
	r.own.Drop()
	if !r.reading.TryLock() {
		return // held: whoever holds the buffer is the last to have it
	}
	defer r.reading.Unlock()
	r.engine.mu.Lock()
	defer r.engine.mu.Unlock()
	r.engine.mu.spare = r.result
}

// moved tells the sink that a frame has passed.
func (r *Reduction) moved() {
	r.mu.Lock()
	sink := r.mu.sink
	r.mu.Unlock()
	sink.Progress(r.Traffic())
}
