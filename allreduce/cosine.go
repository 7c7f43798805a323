package allreduce

import (
	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
	"github.com/p2pdiloco/p2pdiloco/internal/similarity"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// cosineFrames is the greatest number of frames of a piece whose contributions are compared. The
// figure is for people that watch a run, so few frames do.
const cosineFrames = 4

// compare takes in how alike the contributions to frame f are, if that is one of those chosen: at
// equal distances over the piece. It only reads.
func (p *ownPiece) compare(f int, cols [][]float32) {
	if !p.chosen(f) {
		return
	}
	var m similarity.Mean
	m.Add(cols)
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	p.of.cosines.Join(m)
}

// chosen says whether frame f is one of those that are compared.
func (p *ownPiece) chosen(f int) bool {
	stride := (p.last - p.first + cosineFrames - 1) / cosineFrames
	return (f-p.first)%stride == stride/2
}

// recall gets the chosen frames of the outcome before. The reducer does not wait for them.
func (p *ownPiece) recall() {
	plan := p.r.Plan()
	for f := p.first; f < p.last && p.ctx.Err() == nil; f++ {
		if !p.chosen(f) {
			continue
		}
		values := make([]float32, p.r.grid.FrameLen(f))
		if p.r.engine.cfg.Before(plan.Slot, plan.Fragment, f, values) {
			p.r.mu.Lock()
			p.before[f] = values
			p.r.mu.Unlock()
		}
	}
}

// compareBefore adds to the row of frame f how the contributions lie to the outcome before, if that
// is at hand.
func (p *ownPiece) compareBefore(f int, cols [][]float32, row slot.FigureRow) {
	p.r.mu.Lock()
	before := p.before[f]
	delete(p.before, f)
	p.r.mu.Unlock()
	if before == nil {
		return
	}
	norm := kernel.NormSq(before)
	for i, c := range cols {
		row.Of[i].Before = Along(kernel.Dot(c, before), norm)
	}
}

// Cosine is the mean cosine over all pairs of contributions, on some frames of what was reduced
// here so far.
func (r *Reduction) Cosine() similarity.Mean {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.schedule.cosine()
}
