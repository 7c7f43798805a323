package allreduce

import (
	"fmt"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// rotation is the schedule in which each contributor feeds each owner: the own pieces, and a feed
// to the owner of each other piece. Pieces live through revisions that leave them as they are. The
// reduction's mu guards all that changes, and is held where nothing else is said.
type rotation struct {
	r       *Reduction
	window  int           // frames that a contributor may be ahead
	revised chan struct{} // closed and replaced when the plan changes
	pieces  map[slot.Piece]*piece
	dropped slot.Bitmap // contributors that own pieces do without
	// leaves of others' contributions, by place; nil where none came
	seen    [][]slot.FrameLeaf
	cosines struct { // between contributions: see pairCosine
		sum float64
		n   int
	}
}

func newRotation(r *Reduction) *rotation {
	n := len(r.offers)
	return &rotation{
		r: r, window: r.grid.Window(n), revised: make(chan struct{}), pieces: make(map[slot.Piece]*piece),
		dropped: slot.NewBitmap(n), seen: make([][]slot.FrameLeaf, n),
	}
}

// start starts all pieces of the plan that do not run yet. Feeds start in ring order, from the next
// peer on.
func (rot *rotation) start() {
	r, n := rot.r, len(rot.r.offers)
	for shift := range n {
		owner := r.offers[(r.self+shift)%n].Peer
		for _, p := range r.mu.plan.Pieces {
			if p.Owner != owner || rot.pieces[p] != nil {
				continue
			}
			np := newPiece(rot, p)
			rot.pieces[p] = np
			if shift == 0 {
				newOwnPiece(np).start()
			} else {
				feed := &feed{piece: np, credit: make(chan struct{}, np.last-np.first)}
				np.spawn(feed.run)
			}
		}
	}
}

// withdraw stops the pieces that the next plan has no more, and waits until they have ended. mu is
// not held.
func (rot *rotation) withdraw(next slot.Plan) {
	rot.loseSilent(next)
	for _, p := range takeOut(rot.r, rot.pieces, next) {
		p.cancel()
		p.part.Wait()
	}
}

// turn goes on by a revision: the own pieces drop the contributors that are gone, the new pieces
// start, and those that wait for more contributors look again.
func (rot *rotation) turn() {
	for i := range rot.r.offers {
		if rot.r.mu.plan.Gone.Has(i) {
			rot.drop(i)
		}
	}
	rot.start()
	close(rot.revised)
	rot.revised = make(chan struct{})
}

// drop leaves a contributor out of what the own pieces have not reduced yet, and of all that come.
func (rot *rotation) drop(place int) {
	rot.dropped.Set(place)
	for _, p := range rot.pieces {
		if in := p.input(place); in != nil {
			in.quit()
			in.cancel()
		}
	}
}

// attach gives a contributor's stream the input that it is for. The contributor is in the group.
func (rot *rotation) attach(from slot.PeerID, h hello) (guest, error) {
	p := rot.pieces[slot.Piece{Range: h.Range, Owner: rot.r.engine.cfg.Self}]
	if h.Ring || p == nil {
		return nil, nil
	}
	in := p.input(rot.r.mu.plan.Place(from))
	if in == nil || in.left || in.attached {
		return nil, fmt.Errorf("%w: the peer was lost or has a stream already", errUnwanted)
	}
	in.attached = true
	p.enter()
	return in, nil
}

func (rot *rotation) status(p slot.Piece) pieceStatus {
	if piece := rot.pieces[p]; piece != nil {
		return piece.status
	}
	return pieceOpen
}

func (rot *rotation) closed() (all []slot.Segment) {
	for _, p := range rot.pieces {
		all = append(all, p.closed...)
	}
	return all
}

// Coming lists the pieces of other owners that are under way, in a rotation: they are not complete,
// and their owners are not lost.
func (r *Reduction) Coming() (all []Coming) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rot, _ := r.schedule.(*rotation)
	if rot == nil {
		return nil
	}
	for _, piece := range r.mu.plan.Pieces {
		if p := rot.pieces[piece]; p != nil && p.inputs == nil && p.status == pieceOpen {
			size := uint64(r.out.Size(p.first, p.last))
			all = append(all, Coming{piece, min(size, p.taken.Load()), size})
		}
	}
	return all
}
