package allreduce

import "github.com/p2pdiloco/p2pdiloco/internal/slot"

// spread puts a row about some contributors of a group into one about all of it. Nothing is said of
// the others.
func spread(row slot.FigureRow, set []*input, group int) slot.FigureRow {
	all := slot.FigureRow{Norm: row.Norm, Of: make([]slot.Figure, group)}
	for i, in := range set {
		all.Of[in.place] = row.Of[i]
	}
	return all
}

// Figures is what the owner of a range has published of the contributions of some peers to it: a
// row for each frame; nil if no piece with this range in it has come from its owner or was reduced
// here, or the owner has published nothing.
func (r *Reduction) Figures(rng slot.Range, peers []slot.PeerID) []slot.FigureRow {
	r.mu.Lock()
	defer r.mu.Unlock()
	rot, _ := r.schedule.(*rotation)
	if rot == nil {
		return nil
	}
	for _, p := range rot.pieces {
		if p.holds(rng) {
			return p.pick(rng, peers)
		}
	}
	return nil
}

// holds says whether a piece is done and a range of whole frames lies in it. The reduction's mu is
// held.
func (p *piece) holds(rng slot.Range) bool {
	return p.status == pieceDone && p.Range.Begin <= rng.Begin && rng.End <= p.Range.End && p.r.grid.OnGrid(rng)
}

// pick takes out the rows of a range and the figures of some peers.
func (p *piece) pick(rng slot.Range, peers []slot.PeerID) (rows []slot.FigureRow) {
	r := p.r
	first, last := r.grid.FramesOf(rng)
	if len(p.figures) != p.last-p.first {
		return nil
	}
	for _, from := range p.figures[first-p.first : last-p.first] {
		row := slot.FigureRow{Norm: from.Norm, Of: make([]slot.Figure, len(peers))}
		for i, peer := range peers {
			place := r.mu.plan.Place(peer)
			if place < 0 {
				return nil
			}
			row.Of[i] = from.Of[place]
		}
		rows = append(rows, row)
	}
	return rows
}
