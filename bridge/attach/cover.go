package attach

import (
	"fmt"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/bridge/attach/wire"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// maxPieces bounds the different pieces of one tensor: each is compared with each.
const maxPieces = 4096

// held is one piece that a rank holds.
type held struct {
	wire.Piece
	rank, index int // the index is that in the rank's list
}

// Cover checks that the pieces of all ranks make up the model: each element in one piece, or in
// equal ones. It returns the layout, and for each rank and piece of it 1 where the rank writes the
// piece: the lowest one that holds it does.
func Cover(ranks []*wire.Layout) (trainer.Layout, [][]byte, error) {
	layout, err := common(ranks)
	if err != nil {
		return nil, nil, err
	}
	writes := make([][]byte, len(ranks))
	tensors := make([][]held, len(layout))
	for rank, l := range ranks {
		writes[rank] = make([]byte, len(l.Pieces))
		for index, p := range l.Pieces {
			if p.Tensor >= uint64(len(layout)) {
				return nil, nil, fmt.Errorf("rank %d has a piece of tensor %d, and there are %d: count them from 0",
					rank, p.Tensor, len(layout))
			}
			tensors[p.Tensor] = append(tensors[p.Tensor], held{p, rank, index})
		}
	}
	for i, pieces := range tensors {
		distinct, err := cover(layout[i], pieces)
		if err != nil {
			return nil, nil, fmt.Errorf("tensor %q%v: %w", layout[i].Name, layout[i].Shape, err)
		}
		for _, p := range distinct {
			writes[p.rank][p.index] = 1
		}
	}
	return layout, writes, nil
}

// common is the layout that all ranks have given.
func common(ranks []*wire.Layout) (trainer.Layout, error) {
	var first trainer.Layout
	for rank, l := range ranks {
		layout := make(trainer.Layout, len(l.Tensors))
		for i, t := range l.Tensors {
			layout[i] = t.Tensor
		}
		if rank == 0 {
			first = layout
			if err := layout.Validate(); err != nil {
				return nil, err
			}
			continue
		}
		if d := first.Diff(layout); d != "" {
			return nil, fmt.Errorf("rank 0 (here) and rank %d (there) differ: %s: all ranks give the whole model, "+
				"with global shapes, in one order", rank, d)
		}
	}
	return first, nil
}

// cover checks one tensor's pieces, and returns the distinct ones that are not empty. Of equal ones
// it is that of the lowest rank.
func cover(t trainer.Tensor, pieces []held) (distinct []held, err error) {
	volume := uint64(0)
	for _, p := range pieces {
		if err := coverFits(t, p); err != nil {
			return nil, err
		}
		if p.Flat != pieces[0].Flat {
			return nil, fmt.Errorf("of ranks %d and %d one gives a box, and one a flat range: all ranks must give the "+
				"same form", pieces[0].rank, p.rank)
		}
		if p.volume() == 0 || slices.ContainsFunc(distinct, p.equal) {
			continue
		}
		for _, other := range distinct {
			if p.overlaps(other) {
				return nil, fmt.Errorf("ranks %d and %d hold parts that overlap and differ", other.rank, p.rank)
			}
		}
		if distinct = append(distinct, p); len(distinct) > maxPieces {
			return nil, fmt.Errorf("more than %d different parts", maxPieces)
		}
		volume += p.volume()
	}
	if all := t.Elements(); volume < all {
		return nil, fmt.Errorf("%d of %d elements are held by no rank: give every rank's part", all-volume, all)
	}
	return distinct, nil
}

// coverFits checks that a piece lies within its tensor.
func coverFits(t trainer.Tensor, p held) error {
	shape := t.Shape
	if p.Flat {
		shape = []uint64{t.Elements()}
	}
	if len(p.Offsets) != len(shape) {
		return fmt.Errorf("rank %d gives a box of %d dimensions", p.rank, len(p.Offsets))
	}
	for i, n := range shape {
		if p.Offsets[i] > n || p.Extents[i] > n-p.Offsets[i] {
			return fmt.Errorf("rank %d gives %d elements from %d on in a dimension of %d: declare no padding", p.rank,
				p.Extents[i], p.Offsets[i], n)
		}
	}
	return nil
}

func (p held) volume() uint64 {
	n := uint64(1)
	for _, extent := range p.Extents {
		n *= extent
	}
	return n
}

func (p held) equal(o held) bool {
	return slices.Equal(p.Offsets, o.Offsets) && slices.Equal(p.Extents, o.Extents)
}

func (p held) overlaps(o held) bool {
	for i := range p.Offsets {
		if p.Offsets[i] >= o.Offsets[i]+o.Extents[i] || o.Offsets[i] >= p.Offsets[i]+p.Extents[i] {
			return false
		}
	}
	return true
}
