package allreduce

import (
	"github.com/p2pdiloco/p2pdiloco/allreduce/internal/plan"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// rings is the schedule in which neighbours alone have streams: one circle after the other, each
// with the peers that are left, and what stands of the pieces through all of them. The reduction's
// mu guards what changes, and is held where nothing else is said.
type rings struct {
	r       *Reduction
	current *ring                      // the circle that runs
	round   map[slot.Piece]*roundPiece // all pieces
}

// roundPiece is what stands of a piece through all circles. have is guarded by the mu of the ring
// that runs, the rest that changes by the reduction's.
type roundPiece struct {
	slot.Piece
	first, last int
	have        int // frames [first, have) are in the result
	status      pieceStatus
	begin       int            // own piece: the first frame of the range that is open
	closed      []slot.Segment // own piece
}

// turn starts a circle unless the one that runs is the plan's.
func (rs *rings) turn() {
	if rs.current == nil {
		rs.start()
	}
}

func (rs *rings) start() {
	g := newRing(rs)
	rs.current = g
	clear(rs.r.mu.lost) // a peer that failed in another circle may fail in this one, too
	if len(g.circle) == 1 {
		g.spawn(g.alone)
		return
	}
	g.learn()
	g.spawn(g.run)
	g.spawn(g.watch)
}

// piece is what stands of a piece that a circle begins with.
func (rs *rings) piece(p slot.Piece) *roundPiece {
	rp := rs.round[p]
	if rp == nil {
		rp = &roundPiece{Piece: p}
		rp.first, rp.last = rs.r.grid.FramesOf(p.Range)
		rp.have, rp.begin = rp.first, rp.first
		rs.round[p] = rp
	}
	if rp.status == pieceFailed {
		rp.status = pieceOpen
	}
	return rp
}

// withdraw ends the circle that runs, unless the next plan goes on with it, and takes out the
// pieces that are not in the plan. mu is not held.
func (rs *rings) withdraw(next slot.Plan) {
	rs.stop(next)
	takeOut(rs.r, rs.round, next)
}

// stop ends the circle that runs, unless the next plan goes on with it, and closes the ranges that
// it has begun here. mu is not held.
func (rs *rings) stop(next slot.Plan) {
	rs.r.mu.Lock()
	g := rs.current
	if g == nil || g.key == plan.KeyOf(next) && g.ctx.Err() == nil {
		rs.r.mu.Unlock()
		return
	}
	rs.current = nil
	rs.r.mu.Unlock()
	g.cancel()
	g.part.Wait()
	for _, p := range g.pieces {
		g.closeRange(p, p.have)
	}
}

// attach gives the stream of the peer before to the circle that it is for.
func (rs *rings) attach(from slot.PeerID, h hello) (guest, error) {
	g := rs.current
	switch {
	case !h.Ring || g == nil || g.key != h.Round:
		return nil, nil
	case g.attached || len(g.circle) < 2 || from != g.peer(g.circle.Before(g.place)):
		return nil, errUnwanted
	}
	g.attached = true
	close(g.came)
	g.enter()
	return g, nil
}

func (rs *rings) status(p slot.Piece) pieceStatus {
	if rp := rs.round[p]; rp != nil {
		return rp.status
	}
	return pieceOpen
}

func (rs *rings) closed() (all []slot.Segment) {
	for _, p := range rs.round {
		all = append(all, p.closed...)
	}
	return all
}
