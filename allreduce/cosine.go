package allreduce

import (
	"github.com/p2pdiloco/p2pdiloco/internal/similarity"
)

// cosineFrames is the greatest number of frames of a piece whose contributions are compared. The
// figure is for people that watch a run, so few frames do.
const cosineFrames = 4

// compare takes in how alike the contributions to frame f are, if that is one of those chosen: at
// equal distances over the piece. It only reads.
func (p *ownPiece) compare(f int, cols [][]float32) {
	stride := (p.last - p.first + cosineFrames - 1) / cosineFrames
	if (f-p.first)%stride != stride/2 {
		return
	}
	var m similarity.Mean
	m.Add(cols)
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	p.r.mu.cosine.Join(m)
}

// Cosine is the mean cosine over all pairs of contributions, on some frames of what was reduced
// here so far.
func (r *Reduction) Cosine() similarity.Mean {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.cosine
}
