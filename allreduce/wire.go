package allreduce

import (
	"github.com/p2pdiloco/p2pdiloco/allreduce/internal/plan"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// A stream serves one contributor and one piece. The contributor opens it and writes
//
//	hello | leaf of each frame of its whole contribution | raw frames of the piece, in order
//
// and the owner answers with the reduced frames of the piece, in order, and its root. Either side
// may say "alive" between frames.
const (
	helloMagic = 0x50324452 // "P2DR"
	helloSize  = 4 + 32 + 8 + 32 + 4 + 4 + 32 + 8 + 8 + 4
	headerSize = 1 + 4 + 4
	aliveSize  = 8
	refuseSize = 1

	packedLeast = 2 // bytes of a packed frame: the method, and something
)

// A stream of a ring goes from a peer to the next one. Its opener writes
//
//	hello | table | norms, partial results and reduced frames as they come
//
// and hears a table and alive messages. A table says how many frames of each piece its sender has,
// u32 each, in the plan's order.
const ringMagic = 0x50324447 // "P2DG"

// hello says what a stream is for. It is the first thing on it, and of fixed size. The stream
// belongs to the group, the range and its owner, which receives the hello. It lives through
// revisions that leave the piece as it is.
type hello struct {
	Run      slot.Root  // run ID
	Ref      slot.Ref   // height, previous record, and ballot of the plan that the greeter goes by
	Revision uint32     // of that plan
	Group    slot.Root  // slot.Plan.Group: both sides must work on the same one
	Range    slot.Range // of the piece
	Frames   uint32     // of the vector: as many leaves follow (slot.FrameLeaf)

	Ring  bool          // it is a stream of a ring: there is no range and no hash, but
	Round plan.RoundKey // what its circle works on
}

// Append appends the fixed encoding.
func (h hello) Append(b []byte) []byte {
	magic := uint32(helloMagic)
	if h.Ring {
		magic = ringMagic
	}
	b = wire.AppendU32(b, magic)
	b = append(b, h.Run[:]...)
	b = wire.AppendU32(h.Ref.Append(b), h.Revision)
	b = append(b, h.Group[:]...)
	if h.Ring {
		return append(b, h.Round[:]...)
	}
	b = wire.AppendU64(wire.AppendU64(b, h.Range.Begin), h.Range.End)
	return wire.AppendU32(b, h.Frames)
}

// parseHello reads exactly what Append wrote.
func parseHello(b []byte) (hello, error) {
	r := wire.NewReader(b)
	var h hello
	switch r.U32() {
	case helloMagic:
	case ringMagic:
		h.Ring = true
	default:
		r.Fail("not an all-reduce stream of this version")
	}
	copy(h.Run[:], r.Take(len(h.Run)))
	h.Ref, h.Revision = slot.ReadRef(r), r.U32()
	copy(h.Group[:], r.Take(len(h.Group)))
	if h.Ring {
		copy(h.Round[:], r.Take(len(h.Round)))
	} else {
		h.Range, h.Frames = slot.Range{Begin: r.U64(), End: r.U64()}, r.U32()
		if h.Range.Begin >= h.Range.End || h.Frames == 0 || h.Frames > plan.MaxFrames {
			r.Fail("range %v, %d frames", h.Range, h.Frames)
		}
	}
	if err := r.Done(); err != nil {
		return hello{}, err
	}
	return h, nil
}

// frameKind says what a frame's payload is. The enumeration only grows.
type frameKind uint8

const (
	kindRaw     frameKind = 1 // to the owner: encoded values of a frame
	kindReduced frameKind = 2 // from the owner: encoded outcome of a frame
	kindRoot    frameKind = 3 // from the owner, last: root of the reduced piece
	// either way: bytes of leaves and frames received so far, which count as progress, u64
	kindAlive  frameKind = 4
	kindRefuse frameKind = 5 // from the owner, last: the contribution is bad; Reason, u8
	// from the owner, before the root: a slot.FigureRow over the group for each frame of the piece
	kindFigures frameKind = 6

	// as raw, compressed (pack.go): method u8, then bytes; shorter than the frame
	kindPackedRaw     frameKind = 8
	kindPackedReduced frameKind = 9 // as reduced, compressed
)

// The kinds of frames in a ring.
const (
	// lanes of a frame: float32, little-endian, lane after lane (kernel.Lanes)
	kindPartial frameKind = 16
	kindPassed  frameKind = 17 // encoded outcome of a frame
	// index: a place in the plan; its squared norm of each frame, float64, big-endian
	kindNorms frameKind = 18
)

// packed is the kind of a raw or reduced frame that is compressed.
func (k frameKind) packed() frameKind { return k + kindPackedRaw - kindRaw }

func (k frameKind) isPacked() bool { return k == kindPackedRaw || k == kindPackedReduced }

// carries says whether a header stands before a frame of that kind, packed or not, index and size.
func (h header) carries(kind frameKind, index, size int) bool {
	switch {
	case int(h.Index) != index:
		return false
	case h.Kind == kind:
		return uint64(h.Length) == uint64(size)
	default:
		return h.Kind == kind.packed() && uint64(h.Length) < uint64(size)
	}
}

// header stands before each payload.
type header struct {
	Kind   frameKind
	Index  uint32 // of the frame in the vector; 0 for kinds that are not frames
	Length uint32 // bytes of payload
}

// Append appends the fixed encoding.
func (h header) Append(b []byte) []byte {
	return wire.AppendU32(wire.AppendU32(append(b, uint8(h.Kind)), h.Index), h.Length)
}

// parseHeader reads exactly what Append wrote. It checks the lengths of all kinds but those of
// frames and norms: those the grid says.
func parseHeader(b []byte) (header, error) {
	r := wire.NewReader(b)
	h := header{Kind: frameKind(r.U8()), Index: r.U32(), Length: r.U32()}
	switch h.Kind {
	case kindRaw, kindReduced, kindPartial, kindPassed, kindNorms:
	case kindFigures:
		h.expect(r, h.Length)
	case kindPackedRaw, kindPackedReduced:
		if h.Length < packedLeast {
			r.Fail("packed frame of %d bytes", h.Length)
		}
	case kindRoot:
		h.expect(r, uint32(len(slot.Root{})))
	case kindAlive:
		h.expect(r, aliveSize)
	case kindRefuse:
		h.expect(r, refuseSize)
	default:
		r.Fail("unknown frame kind %d", h.Kind)
	}
	if err := r.Done(); err != nil {
		return header{}, err
	}
	return h, nil
}

// expect is for kinds whose payload has one size and that belong to no frame.
func (h header) expect(r *wire.Reader, length uint32) {
	if h.Length != length || h.Index != 0 {
		r.Fail("frame of kind %d with index %d and %d bytes", h.Kind, h.Index, h.Length)
	}
}

func appendAlive(b []byte, progress uint64) []byte {
	return wire.AppendU64(header{kindAlive, 0, aliveSize}.Append(b), progress)
}

func appendRefuse(b []byte, reason Reason) []byte {
	return append(header{kindRefuse, 0, refuseSize}.Append(b), uint8(reason))
}

func appendFigures(b []byte, rows []slot.FigureRow) []byte {
	size := len(rows) * slot.FigureRowSize(len(rows[0].Of))
	b = header{kindFigures, 0, uint32(size)}.Append(b)
	for _, row := range rows {
		b = row.Append(b)
	}
	return b
}

func appendRoot(b []byte, root slot.Root) []byte {
	return append(header{kindRoot, 0, uint32(len(root))}.Append(b), root[:]...)
}
