package allreduce

import (
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// revise turns to another plan of the same group, in four steps:
//
//  1. pieces that are not in it any more stop: their owners are gone. In schedule ring all pieces
//     stop, since the ring is another one;
//  2. it waits until their goroutines have ended, so that a range of the result has one writer;
//  3. the own pieces drop the contributors that are gone, and the new pieces start;
//  4. the sink is told once more of all own ranges that are closed: another leader may not know
//     them.
//
// All other pieces go on: no byte is sent twice.
func (r *Reduction) revise(plan slot.Plan, sink Sink) error {
	r.stopRing(plan)
	for _, p := range r.withdraw(plan) {
		p.cancel()
		p.wg.Wait()
	}
	r.mu.Lock()
	if r.mu.ended {
		r.mu.Unlock()
		return ErrClosed
	}
	r.mu.plan, r.mu.sink = plan, sink
	for i := range r.offers {
		if plan.Gone.Has(i) {
			r.drop(i)
		}
	}
	r.startPieces()
	close(r.mu.revised)
	r.mu.revised = make(chan struct{})
	r.tally()
	var closed []closedRange
	for _, p := range r.mu.own {
		closed = append(closed, p.closed...)
	}
	for _, p := range r.mu.round {
		for _, s := range p.closed {
			closed = append(closed, closedRange{Segment: s})
		}
	}
	r.mu.Unlock()
	for _, s := range closed {
		sink.SegmentDone(s.Segment, s.figures, s.alike)
	}
	return nil
}

// withdraw takes out the pieces that a plan has no more.
func (r *Reduction) withdraw(plan slot.Plan) (out []*piece) {
	r.reading.Lock()
	defer r.reading.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, p := range r.mu.own {
		if !slices.Contains(plan.Pieces, key) {
			delete(r.mu.own, key)
			out = append(out, p.piece)
		}
	}
	for key, f := range r.mu.feeds {
		if !slices.Contains(plan.Pieces, key) {
			delete(r.mu.feeds, key)
			out = append(out, f.piece)
		}
	}
	for key := range r.mu.round {
		if !slices.Contains(plan.Pieces, key) {
			delete(r.mu.round, key)
		}
	}
	return out
}

// startPieces starts all pieces of the plan that do not run yet. Feeds start in ring order, from
// the next peer on. mu is held.
func (r *Reduction) startPieces() {
	if len(r.mu.plan.Ring) > 0 {
		r.startRing()
		return
	}
	n := len(r.offers)
	for shift := range n {
		owner := r.offers[(r.self+shift)%n].Peer
		for _, p := range r.mu.plan.Pieces {
			switch {
			case p.Owner != owner:
			case shift == 0 && r.mu.own[p] == nil:
				r.mu.own[p] = newOwnPiece(newPiece(r, p))
				r.mu.own[p].start()
			case shift > 0 && r.mu.feeds[p] == nil:
				f := newFeed(newPiece(r, p))
				r.mu.feeds[p] = f
				f.spawn(f.run)
			}
		}
	}
}

// drop leaves a contributor out of what the own pieces have not reduced yet, and of all that come.
// mu is held.
func (r *Reduction) drop(place int) {
	r.mu.dropped.Set(place)
	for _, p := range r.mu.own {
		if in := p.inputs[place]; in != nil {
			in.quit()
			in.cancel()
		}
	}
}
