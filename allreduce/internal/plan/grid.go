package plan

import (
	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Grid cuts a vector into frames. An encoded vector is its encoded frames one after the other, so
// frame f starts at byte f*frameBytes; only the last frame may be shorter.
type Grid struct {
	Codec         codec.Codec
	Total         uint64 // elements of the vector
	FrameElements int    // elements of a frame
	FrameBytes    int    // bytes of an encoded frame
	Frames        int    // number of frames
	TotalBytes    int    // bytes of the encoded vector
}

// NewGrid makes the grid of the contributions to a fragment of validated params.
func NewGrid(p Params, fragment uint32) Grid {
	in, _, err := p.Codecs()
	return gridOf(p, fragment, in, err)
}

// OutcomeGrid is that of the outcome. Only bytes may differ: frames are of the same elements.
func OutcomeGrid(p Params, fragment uint32) Grid {
	_, out, err := p.Codecs()
	return gridOf(p, fragment, out, err)
}

func gridOf(p Params, fragment uint32, c codec.Codec, err error) Grid {
	if err != nil || p.FrameElements < 1 || p.Fragments[fragment] < 1 {
		panic("allreduce: params were not validated")
	}
	g := Grid{
		Codec: c, Total: p.Fragments[fragment], FrameElements: p.FrameElements,
		FrameBytes: c.EncodedSize(p.FrameElements),
	}
	g.Frames = int((g.Total-1)/uint64(p.FrameElements)) + 1
	g.TotalBytes = (g.Frames-1)*g.FrameBytes + g.FrameSize(g.Frames-1)
	return g
}

// Elements is the range that frames [first, last) cover.
func (g Grid) Elements(first, last int) slot.Range {
	return slot.Range{
		Begin: uint64(first) * uint64(g.FrameElements),
		End:   min(uint64(last)*uint64(g.FrameElements), g.Total),
	}
}

// FramesOf is the inverse of elements, for ranges on the grid.
func (g Grid) FramesOf(r slot.Range) (first, last int) {
	fe := uint64(g.FrameElements)
	return int(r.Begin / fe), int((r.End + fe - 1) / fe)
}

// OnGrid says whether a range is not empty, lies within the vector and begins and ends at frame
// borders.
func (g Grid) OnGrid(r slot.Range) bool {
	fe := uint64(g.FrameElements)
	return r.Begin < r.End && r.End <= g.Total && r.Begin%fe == 0 && (r.End%fe == 0 || r.End == g.Total)
}

// FrameLen is the number of elements of frame f.
func (g Grid) FrameLen(f int) int { return int(g.Elements(f, f+1).Len()) }

// FrameSize is the number of encoded bytes of frame f.
func (g Grid) FrameSize(f int) int { return g.Codec.EncodedSize(g.FrameLen(f)) }

// Frame is frame f of an encoded vector.
func (g Grid) Frame(encoded []byte, f int) []byte {
	return encoded[f*g.FrameBytes:][:g.FrameSize(f):g.FrameSize(f)]
}

// Bytes is frames [first, last) of an encoded vector.
func (g Grid) Bytes(encoded []byte, first, last int) []byte {
	return encoded[first*g.FrameBytes : g.end(last) : g.end(last)]
}

// Size is the number of encoded bytes of frames [first, last).
func (g Grid) Size(first, last int) int { return g.end(last) - first*g.FrameBytes }

func (g Grid) end(last int) int { return min(last*g.FrameBytes, g.TotalBytes) }

// Bounds on the frames under way.
const (
	// WindowBytes bounds the raw frames that an owner may have to hold, as they came and decoded,
	// of all contributors together.
	WindowBytes = 128 << 20
	// MinWindow is the least window, in frames: one travels while another one is reduced.
	MinWindow = 2

	// StreamWindow is the number of bytes in flight on one stream: 1 Gbit/s at 100 ms.
	StreamWindow = 16 << 20

	maxWindow = 64 // frames
)

// Window is the number of raw frames that a contributor may be ahead of the reduced frames it got
// back. Both sides take it from here: the sender keeps to it, and an owner holds that many buffers
// for each of n contributors.
func (g Grid) Window(n int) int {
	held := g.FrameBytes
	if g.Codec.Lossy() {
		held += 4 * g.FrameElements
	}
	frames := min(WindowBytes/n/held, StreamWindow/g.FrameBytes)
	return min(max(frames, MinWindow), maxWindow)
}

// Float32Size is the number of bytes of a float32.
const Float32Size = 4
