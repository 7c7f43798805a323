package allreduce

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// Reduction is one plan being carried out.
type Reduction struct {
	engine *Engine
	plan   slot.Plan
	hash   slot.Root // of the plan
	self   int       // place in the group
	own    *Contribution
	sink   Sink
	window int
	pieces map[int]*ownPiece // the own ones, by index in the plan
	result []byte            // encoded outcome of the whole vector; each piece has one writer

	ctx      context.Context
	cancel   context.CancelFunc
	wg       sync.WaitGroup // all goroutines and joined streams
	complete chan struct{}  // closed when every piece is in result
	sent     atomic.Uint64
	received atomic.Uint64

	mu struct {
		sync.Mutex
		ended    bool // nothing may join any more
		released bool
		done     []bool // a piece: complete
		left     int    // pieces not finished
		lost     map[slot.PeerID]Reason
	}
}

func newReduction(ctx context.Context, e *Engine, plan slot.Plan, self int, own *Contribution, sink Sink) (*Reduction, error) {
	r := &Reduction{engine: e, plan: plan, hash: slot.Hash(plan.Append(nil)), self: self, own: own, sink: sink}
	r.window = e.grid.window(len(plan.Offers))
	r.pieces = make(map[int]*ownPiece)
	r.complete = make(chan struct{})
	r.mu.done = make([]bool, len(plan.Pieces))
	r.mu.left = len(plan.Pieces)
	r.mu.lost = make(map[slot.PeerID]Reason)
	r.ctx, r.cancel = context.WithCancel(ctx)
	for i, piece := range plan.Pieces {
		if piece.Owner != e.cfg.Self {
			continue
		}
		p, err := newOwnPiece(r, i)
		if err != nil {
			r.cancel()
			return nil, err
		}
		r.pieces[i] = p
	}
	return r, nil
}

// run starts all goroutines. Feeds start in ring order, from the next peer on.
func (r *Reduction) run() {
	for _, p := range r.pieces {
		p.run()
	}
	n := len(r.plan.Offers)
	for shift := 1; shift < n; shift++ {
		owner := r.plan.Offers[(r.self+shift)%n].Peer
		for i, piece := range r.plan.Pieces {
			if piece.Owner == owner {
				r.wg.Go(newFeed(r, i).run)
			}
		}
	}
	go func() {
		defer r.engine.wg.Done()
		<-r.ctx.Done()
		r.mu.Lock()
		r.mu.ended = true
		r.mu.Unlock()
		r.wg.Wait()
	}()
}

// attach gives a peer's stream its input. The stream then counts as one of the reduction's goroutines.
func (r *Reduction) attach(from slot.PeerID, h hello) (*input, error) {
	p := r.pieces[int(h.Piece)]
	at := offerIndex(r.plan.Offers, from)
	if p == nil || at < 0 || at == r.self || h.Hashes != uint32(r.engine.grid.frames) {
		return nil, fmt.Errorf("%w: piece %d is not reduced here for %s", errUnwanted, h.Piece, from.Short())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	in := p.inputs[at]
	if r.mu.ended || r.mu.lost[from] != 0 || in.attached {
		return nil, fmt.Errorf("%w: the peer was lost or has a stream already", errUnwanted)
	}
	in.attached = true
	r.received.Add(helloSize)
	r.wg.Add(1)
	return in, nil
}

// lose tells the sink of a failed peer, once. What fails because the reduction is over is no failure.
func (r *Reduction) lose(peer slot.PeerID, reason Reason, err error) {
	r.mu.Lock()
	tell := r.ctx.Err() == nil && r.mu.lost[peer] == 0
	if tell {
		r.mu.lost[peer] = reason
	}
	r.mu.Unlock()
	if tell {
		r.engine.cfg.Logger.Warn("peer lost in all-reduce", "peer", peer.String(), "slot", r.plan.Slot,
			"revision", r.plan.Revision, "reason", reason.String(), "err", err)
		r.sink.Lost(peer, reason, err)
	}
}

// broken says whether somebody is lost: the pieces that need that peer then stand still, and nobody else is to blame for it.
func (r *Reduction) broken() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.mu.lost) > 0
}

// finish marks a piece complete, and tells the sink if it is an own one. Complete comes after the sink has heard of all of them.
func (r *Reduction) finish(piece int, own *slot.Segment) {
	r.mu.Lock()
	r.mu.done[piece] = true
	r.mu.Unlock()
	if own != nil {
		r.sink.SegmentDone(*own)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.left--; r.mu.left == 0 {
		close(r.complete)
	}
}

// Plan is the plan being carried out.
func (r *Reduction) Plan() slot.Plan { return r.plan }

// Complete is closed when every piece is in the result and the sink has heard of the own ones. The reduction may still be sending to others.
func (r *Reduction) Complete() <-chan struct{} { return r.complete }

// Traffic is the number of bytes sent and received so far, headers included.
func (r *Reduction) Traffic() (sent, received uint64) { return r.sent.Load(), r.received.Load() }

// Result returns the encoded outcome of a range that begins and ends on the frame grid, not copied; ok is false while a
// piece that it touches is incomplete. The bytes hold until Release.
func (r *Reduction) Result(rng slot.Range) (encoded []byte, ok bool) {
	g := r.engine.grid
	if !g.onGrid(rng) {
		return nil, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, p := range r.plan.Pieces {
		if p.Range.Begin < rng.End && rng.Begin < p.Range.End && !r.mu.done[i] {
			return nil, false
		}
	}
	first, last := g.framesOf(rng)
	return g.bytes(r.result, first, last), !r.mu.released
}

// Release ends the reduction, waits for its goroutines and gives its result buffer to the next Start. Call it once the slot
// is decided and its bytes are not used any more: peers that still lack pieces of this owner must fetch them elsewhere.
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
	r.engine.mu.Lock()
	defer r.engine.mu.Unlock()
	r.engine.mu.spare = r.result
}

// link wraps a stream and has it reset when the reduction ends. Call stop once the stream is closed.
func (r *Reduction) link(s wire.Stream) (l *link, stop func() bool) {
	l = &link{s: s, stall: r.engine.cfg.Stall, sent: &r.sent, received: &r.received}
	return l, context.AfterFunc(r.ctx, func() { _ = s.Reset() })
}

// moved tells the sink that a frame has passed.
func (r *Reduction) moved() { r.sink.Progress(r.Traffic()) }

// turn waits for one of the lanes, so that peers take turns. It is a courtesy and not a lock: who waits long goes ahead
// anyway, for a lane may be held by a write to a peer that hangs, and nobody else may look dead for that. The returned
// function gives the turn back.
func (r *Reduction) turn() func() {
	lanes := r.engine.lanes
	select {
	case lanes <- struct{}{}:
		return func() { <-lanes }
	default:
	}
	patience := time.NewTimer(r.engine.cfg.Stall / 8)
	defer patience.Stop()
	select {
	case lanes <- struct{}{}:
		return func() { <-lanes }
	case <-patience.C:
	case <-r.ctx.Done():
	}
	return func() {}
}
