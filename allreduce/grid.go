package allreduce

import (
	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// grid cuts a vector into frames. An encoded vector is its encoded frames one after the other, so frame f starts at byte
// f*frameBytes; only the last frame may be shorter.
type grid struct {
	codec      codec.Codec
	total      uint64 // elements of the vector
	frameElems int    // elements of a frame
	frameBytes int    // bytes of an encoded frame
	frames     int    // number of frames
	totalBytes int    // bytes of the encoded vector
	rootless   bool   // Params.Rootless
}

// newGrid makes the grid of the contributions to a fragment of validated params.
func newGrid(p Params, fragment uint32) grid {
	c, err := codec.New(p.Codec)
	if err != nil || p.FrameElements < 1 || p.Fragments[fragment] < 1 {
		panic("allreduce: params were not validated")
	}
	return gridOf(p, fragment, c)
}

// outcomeGrid is that of the outcome. Only bytes may differ: frames are of the same elements.
func outcomeGrid(p Params, fragment uint32) grid {
	g := newGrid(p, fragment)
	return gridOf(p, fragment, codec.Outcome(g.codec))
}

func gridOf(p Params, fragment uint32, c codec.Codec) grid {
	g := grid{codec: c, total: p.Fragments[fragment], frameElems: p.FrameElements, frameBytes: c.EncodedSize(p.FrameElements), rootless: p.Rootless}
	g.frames = int((g.total-1)/uint64(p.FrameElements)) + 1
	g.totalBytes = (g.frames-1)*g.frameBytes + g.frameSize(g.frames-1)
	return g
}

// elements is the range that frames [first, last) cover.
func (g grid) elements(first, last int) slot.Range {
	return slot.Range{Begin: uint64(first) * uint64(g.frameElems), End: min(uint64(last)*uint64(g.frameElems), g.total)}
}

// framesOf is the inverse of elements, for ranges on the grid.
func (g grid) framesOf(r slot.Range) (first, last int) {
	fe := uint64(g.frameElems)
	return int(r.Begin / fe), int((r.End + fe - 1) / fe)
}

// onGrid says whether a range is not empty, lies within the vector and begins and ends at frame borders.
func (g grid) onGrid(r slot.Range) bool {
	fe := uint64(g.frameElems)
	return r.Begin < r.End && r.End <= g.total && r.Begin%fe == 0 && (r.End%fe == 0 || r.End == g.total)
}

// frameLen is the number of elements of frame f.
func (g grid) frameLen(f int) int { return int(g.elements(f, f+1).Len()) }

// frameSize is the number of encoded bytes of frame f.
func (g grid) frameSize(f int) int { return g.codec.EncodedSize(g.frameLen(f)) }

// frame is frame f of an encoded vector.
func (g grid) frame(encoded []byte, f int) []byte {
	return encoded[f*g.frameBytes:][:g.frameSize(f):g.frameSize(f)]
}

// bytes is frames [first, last) of an encoded vector.
func (g grid) bytes(encoded []byte, first, last int) []byte {
	return encoded[first*g.frameBytes : g.end(last) : g.end(last)]
}

// size is the number of encoded bytes of frames [first, last).
func (g grid) size(first, last int) int { return g.end(last) - first*g.frameBytes }

func (g grid) end(last int) int { return min(last*g.frameBytes, g.totalBytes) }

// hash is the hash of a frame's encoded bytes.
func (g grid) hash(frame []byte) slot.Root {
	if g.rootless {
		return slot.Root{}
	}
	return slot.Hash(frame)
}

const (
	windowBytes  = 128 << 20 // raw frames that an owner may have to hold, as they came and decoded, all contributors together
	minWindow    = 2         // frames, so that one travels while another is reduced
	maxWindow    = 64        // frames
	streamWindow = 16 << 20  // bytes in flight on one stream: 1 Gbit/s at 100 ms
)

// window is the number of raw frames that a contributor may be ahead of the reduced frames it got back. Both sides take it
// from here: the sender keeps to it, and an owner holds that many buffers for each of n contributors.
func (g grid) window(n int) int {
	held := g.frameBytes
	if g.codec.Lossy() {
		held += 4 * g.frameElems
	}
	frames := min(windowBytes/n/held, streamWindow/g.frameBytes)
	return min(max(frames, minWindow), maxWindow)
}
