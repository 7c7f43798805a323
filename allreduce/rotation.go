package allreduce

import (
	"fmt"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// rotation is the schedule in which each contributor feeds each owner: the own pieces, and a feed
// to the owner of each other piece. Pieces live through revisions that leave them as they are. The
// reduction's mu guards all that changes, and is held where nothing else is said.
type rotation struct {
	r       *Reduction
	window  int           // frames that a contributor may be ahead
	revised chan struct{} // closed and replaced when the plan changes
	own     map[slot.Piece]*ownPiece
	feeds   map[slot.Piece]*feed
	dropped slot.Bitmap        // contributors that own pieces do without
	cosines CosineMean         // between contributions
	seen    [][]slot.FrameLeaf // leaves of others' contributions, by place; nil where none came
}

func newRotation(r *Reduction) *rotation {
	n := len(r.offers)
	return &rotation{
		r: r, window: r.grid.Window(n), revised: make(chan struct{}), own: make(map[slot.Piece]*ownPiece),
		feeds: make(map[slot.Piece]*feed), dropped: slot.NewBitmap(n), seen: make([][]slot.FrameLeaf, n),
	}
}

// start starts all pieces of the plan that do not run yet. Feeds start in ring order, from the next
// peer on.
func (rot *rotation) start() {
	r, n := rot.r, len(rot.r.offers)
	for shift := range n {
		owner := r.offers[(r.self+shift)%n].Peer
		for _, p := range r.mu.plan.Pieces {
			switch {
			case p.Owner != owner:
			case shift == 0 && rot.own[p] == nil:
				rot.own[p] = newOwnPiece(newPiece(rot, p))
				rot.own[p].start()
			case shift > 0 && rot.feeds[p] == nil:
				f := newFeed(newPiece(rot, p))
				rot.feeds[p] = f
				f.spawn(f.run)
			}
		}
	}
}

// withdraw stops the pieces that the next plan has no more, and waits until they have ended. mu is
// not held.
func (rot *rotation) withdraw(next slot.Plan) {
	rot.loseSilent(next)
	for _, p := range rot.takeOut(next) {
		p.cancel()
		p.wg.Wait()
	}
}

// takeOut takes out the pieces that the next plan has no more. mu is not held.
func (rot *rotation) takeOut(next slot.Plan) (out []*piece) {
	rot.r.reading.Lock()
	defer rot.r.reading.Unlock()
	rot.r.mu.Lock()
	defer rot.r.mu.Unlock()
	for key, p := range rot.own {
		if !slices.Contains(next.Pieces, key) {
			delete(rot.own, key)
			out = append(out, p.piece)
		}
	}
	for key, f := range rot.feeds {
		if !slices.Contains(next.Pieces, key) {
			delete(rot.feeds, key)
			out = append(out, f.piece)
		}
	}
	rot.r.mu.reassigned = rot.r.mu.reassigned || len(out) > 0
	return out
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
	for _, p := range rot.own {
		if in := p.inputs[place]; in != nil {
			in.quit()
			in.cancel()
		}
	}
}

// attach gives a contributor's stream the input that it is for. The contributor is in the group.
func (rot *rotation) attach(from slot.PeerID, h hello) (guest, error) {
	p := rot.own[slot.Piece{Range: h.Range, Owner: rot.r.engine.cfg.Self}]
	if h.Ring || p == nil {
		return nil, nil
	}
	in := p.inputs[rot.r.mu.plan.Place(from)]
	if in == nil || in.left || in.attached {
		return nil, fmt.Errorf("%w: the peer was lost or has a stream already", errUnwanted)
	}
	in.attached = true
	p.enter()
	return in, nil
}

func (rot *rotation) status(p slot.Piece) pieceStatus {
	if own := rot.own[p]; own != nil {
		return own.status
	}
	if f := rot.feeds[p]; f != nil {
		return f.status
	}
	return pieceOpen
}

func (rot *rotation) closed() (all []slot.Segment) {
	for _, p := range rot.own {
		all = append(all, p.closed...)
	}
	return all
}

func (rot *rotation) coming() (all []Coming) {
	for _, piece := range rot.r.mu.plan.Pieces {
		if f := rot.feeds[piece]; f != nil && f.status == pieceOpen {
			size := uint64(rot.r.out.Size(f.first, f.last))
			all = append(all, Coming{piece, min(size, f.taken.Load()), size})
		}
	}
	return all
}

func (rot *rotation) cosine() CosineMean { return rot.cosines }

func (rot *rotation) leaves(place int) []slot.FrameLeaf { return rot.seen[place] }
