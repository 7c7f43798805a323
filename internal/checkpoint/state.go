package checkpoint

import (
	"bytes"
	"fmt"

	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// The encoding of a state: a header of headerSize bytes (stateMagic | elements u64 | optimizer
// vectors u32 | slot u64 | open u64 | zeros; integers big-endian), then the anchor, then each
// optimizer vector, all float32 little-endian.
const (
	stateMagic = "p2pdiloco/state/1"
	headerSize = 64

	maxElements  = 1 << 40 // of a model
	maxOptimizer = 16      // vectors of an optimizer
)

// Shape is the size of a run's state.
type Shape struct {
	Elements  uint64 // D, of the anchor and of each optimizer vector
	Optimizer int    // vectors of outer optimizer state
}

// Validate says whether states of this shape can be kept.
func (s Shape) Validate() error {
	if s.Elements == 0 || s.Elements > maxElements || s.Optimizer < 0 || s.Optimizer > maxOptimizer {
		return fmt.Errorf("checkpoint: shape of %d elements and %d optimizer vectors: want 1 to %d elements and 0 to "+
			"%d vectors",
			s.Elements, s.Optimizer, uint64(maxElements), maxOptimizer)
	}
	return nil
}

// Size is the number of bytes of an encoded state.
func (s Shape) Size() int64 { return headerSize + 4*int64(s.Elements)*int64(1+s.Optimizer) }

// Count is what a state counts. It is a part of the state root.
type Count struct {
	Slot uint64 // outer steps done
	// Open is outeropt.At.Open of the next step
	Open uint64
}

// StateRoot is the root of a state: the BLAKE3-256 of its encoding. The first
// vector is the anchor, the others are the optimizer's, all D elements long. It copies nothing and
// uses all cores.
func StateRoot(count Count, vectors ...[]float32) slot.Root {
	return TreeOf(count, vectors...).Root
}

// Tree is the bao tree over a state, without its bytes.
type Tree struct {
	Root  slot.Root
	nodes []byte // outboard; nil: not known
}

// TreeOf is StateRoot with the tree, which a checkpoint of the state is written with.
func TreeOf(count Count, vectors ...[]float32) Tree {
	nodes, root, err := hashTree(fromParts(encoding(count, vectors)), shapeOf(vectors).Size())
	if err != nil {
		panic("checkpoint: memory cannot be read: " + err.Error())
	}
	return Tree{root, nodes}
}

// encoding is the state's encoding in parts, the vectors as views where the host allows it.
func encoding(count Count, vectors [][]float32) [][]byte {
	s := shapeOf(vectors)
	parts := make([][]byte, 0, 1+len(vectors))
	parts = append(parts, appendHeader(nil, s, count))
	for _, v := range vectors {
		parts = append(parts, kernel.Bytes(v))
	}
	return parts
}

func shapeOf(vectors [][]float32) Shape {
	if len(vectors) == 0 {
		panic("checkpoint: a state needs an anchor")
	}
	for _, v := range vectors {
		if len(v) != len(vectors[0]) {
			panic("checkpoint: the vectors of a state differ in length")
		}
	}
	return Shape{uint64(len(vectors[0])), len(vectors) - 1}
}

func appendHeader(b []byte, s Shape, count Count) []byte {
	end := len(b) + headerSize
	b = append(b, stateMagic...)
	b = wire.AppendU64(b, s.Elements)
	b = wire.AppendU32(b, uint32(s.Optimizer))
	b = wire.AppendU64(wire.AppendU64(b, count.Slot), count.Open)
	return append(b, make([]byte, end-len(b))...)
}

// parseHeader reads what appendHeader wrote.
func parseHeader(b []byte) (s Shape, count Count, err error) {
	r := wire.NewReader(b)
	if m := r.Take(len(stateMagic)); string(m) != stateMagic {
		r.Fail("no state file")
	}
	s = Shape{Elements: r.U64(), Optimizer: int(r.U32())}
	count = Count{Slot: r.U64(), Open: r.U64()}
	if pad := r.Take(max(0, headerSize-len(stateMagic)-8-4-8-8)); len(bytes.Trim(pad, "\x00")) != 0 {
		r.Fail("padding is not zero")
	}
	if err := r.Done(); err != nil {
		return Shape{}, Count{}, err
	}
	return s, count, s.Validate()
}
