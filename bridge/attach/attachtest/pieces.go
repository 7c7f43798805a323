//go:build unix

package attachtest

import (
	"github.com/p2pdiloco/p2pdiloco/bridge/attach/wire"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// bases are where the tensors begin in the flat vector.
func (r *Rank) bases() (all []uint64) {
	at := uint64(0)
	for _, t := range r.Trainer.Layout() {
		all = append(all, at)
		at += t.Elements()
	}
	return all
}

// runs calls f for each row of a piece, with elements of the tensor.
func runs(t trainer.Tensor, p wire.Piece, f func(first, last uint64)) {
	if p.Flat {
		f(p.Offsets[0], p.Offsets[0]+p.Extents[0])
		return
	}
	var walk func(dimension int, at uint64)
	walk = func(dimension int, at uint64) {
		if dimension == len(t.Shape) {
			f(at, at+1)
			return
		}
		first, n := p.Offsets[dimension], p.Extents[dimension]
		if dimension == len(t.Shape)-1 {
			at = at*t.Shape[dimension] + first
			f(at, at+n)
			return
		}
		for i := range n {
			walk(dimension+1, at*t.Shape[dimension]+first+i)
		}
	}
	walk(0, 0)
}
