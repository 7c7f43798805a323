//go:build unix

package attachtest

import (
	"slices"

	"github.com/p2pdiloco/p2pdiloco/bridge/attach/wire"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// holds says whether an element of a tensor, counted in row-major order, is in a piece of it.
func holds(t trainer.Tensor, p wire.Piece, element uint64) bool {
	shape := t.Shape
	if p.Flat {
		shape = []uint64{t.Elements()}
	}
	for i, n := range slices.Backward(shape) {
		if at := element % n; at < p.Offsets[i] || at-p.Offsets[i] >= p.Extents[i] {
			return false
		}
		element /= n
	}
	return true
}
