package allreduce

import (
	"sync/atomic"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// ownPiece is a piece that this peer reduces: steps 2 to 4 of the data path.
type ownPiece struct {
	r           *Reduction
	index       int // in the plan
	rng         slot.Range
	first, last int // frames [first, last) of the vector
	agg         *aggregation
	inputs      []*input      // a contributor, in peer-ID order, this peer included
	taken       atomic.Uint64 // payload bytes of all contributors: what alive messages tell
	root        slot.Root     // of the reduced piece; set before input.ready says that all is reduced
}

func newOwnPiece(r *Reduction, index int) (*ownPiece, error) {
	agg, err := newAggregation(r.engine.cfg.Params, r.plan.Slot, r.plan.Offers)
	if err != nil {
		return nil, err
	}
	p := &ownPiece{r: r, index: index, rng: r.plan.Pieces[index].Range, agg: agg}
	p.first, p.last = r.engine.grid.framesOf(p.rng)
	for _, o := range r.plan.Offers {
		p.inputs = append(p.inputs, newInput(p, o))
	}
	return p, nil
}

// run starts the piece's own goroutines; those of the inputs start when their streams arrive.
func (p *ownPiece) run() {
	p.r.wg.Go(p.reduce)
	p.r.wg.Go(p.inputs[p.r.self].serveOwn)
	if len(p.inputs) > 1 {
		p.r.wg.Go(p.watch)
	}
}

// watch names the contributors that open no stream.
func (p *ownPiece) watch() {
	timer := time.NewTimer(p.r.engine.cfg.Stall)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.r.ctx.Done():
		return
	}
	for i, in := range p.inputs {
		if i != p.r.self && !in.isAttached() {
			p.r.lose(in.offer.Peer, Connection, errNoStream)
		}
	}
}

// reduce takes each frame of all contributors, in peer-ID order, and puts the aggregate where it belongs in the result.
func (p *ownPiece) reduce() {
	g := p.r.engine.grid
	n := len(p.inputs)
	frames, cols, norms := make([]*frame, n), make([][]float32, n), make([]float64, n)
	sum := make([]float32, g.frameElems)
	hashes := make([]slot.Root, 0, p.last-p.first)
	for f := p.first; f < p.last; f++ {
		for i, in := range p.inputs {
			select {
			case frames[i] = <-in.full:
			case <-p.r.ctx.Done():
				return
			}
			cols[i], norms[i] = frames[i].values, frames[i].norm
		}
		dst := sum[:g.frameLen(f)]
		p.agg.frame(dst, cols, norms)
		out := g.frame(p.r.result, f)
		g.codec.Append(out[:0], dst)
		hashes = append(hashes, slot.Hash(out))
		p.giveBack(frames)
		p.publish(f)
	}
	p.root = slot.FrameRoot(hashes, g.frameBytes, uint64(g.size(p.first, p.last)))
	p.publish(p.last)
	p.r.finish(p.index, &slot.Segment{Range: p.rng, Contributors: allOf(n), Root: p.root})
}

func allOf(n int) slot.Bitmap {
	all := slot.NewBitmap(n)
	for i := range n {
		all.Set(i)
	}
	return all
}

// giveBack makes room for the next frames of every contributor.
func (p *ownPiece) giveBack(frames []*frame) {
	for i, in := range p.inputs {
		p.r.engine.frames.Put(frames[i])
		in.free <- struct{}{}
	}
}

// publish tells the writers that frame f is reduced, or with p.last that the root is known. The next peer of the ring comes
// first. It never blocks.
func (p *ownPiece) publish(f int) {
	n := len(p.inputs)
	for shift := 1; shift < n; shift++ {
		p.inputs[(p.r.self+shift)%n].ready <- f
	}
}
