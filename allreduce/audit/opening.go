package audit

import (
	"errors"
	"fmt"
	"math"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/allreduce/internal/plan"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// ErrOpening is wrapped where an opening does not belong to what was signed. That says nothing of
// the peer that signed: somebody has shown other bytes.
var ErrOpening = errors.New("the bytes shown are not those that were committed to")

// Opening is a part of one frame, of a contribution or of an outcome, with what leads from it to
// the root. Range is made of whole blocks of one frame.
type Opening struct {
	Range  slot.Range  // elements of the fragment
	NormSq float64     // that the contribution commits to for this frame; +0 in an outcome
	Bytes  []byte      // the chunks of 1 KiB of the frame in which the range lies
	Inner  []slot.Root // path in the frame: BLAKE3's chaining values beside the chunks, in order
	Path   []slot.Root // path from the frame to the root, the lowest first
}

// Caps on an opening.
const (
	// MaxInner is the most values in a path within a frame: two for each level of 2^14 chunks.
	MaxInner = 2 * 14
	// MaxFrameBytes is the most bytes of a frame.
	MaxFrameBytes = plan.Float32Size * plan.MaxFrameElements

	// openingSize is what an opening takes besides Bytes, at most.
	openingSize = 16 + 8 + 4 + 4 + MaxInner*len(slot.Root{}) + 4 + slot.MaxPath*len(slot.Root{})
)

// MaxOpening is the most bytes that an opening of a sample takes, or of a whole frame of the
// contributions or the outcome: what may be read from a peer that was asked for one.
func MaxOpening(p allreduce.Params, fragment uint32, whole bool) int {
	g := gridsOf(p, fragment)
	if whole {
		return openingSize + max(g.in.FrameBytes, g.out.FrameBytes)
	}
	n := min(g.sampleElements(), g.in.FrameElements)
	return openingSize + 2*wire.HashChunk + max(g.in.Codec.EncodedSize(n), g.out.Codec.EncodedSize(n))
}

// Size is how many bytes Append appends.
func (o Opening) Size() int {
	return 16 + 8 + 4 + len(o.Bytes) + 4 + 4 + (len(o.Inner)+len(o.Path))*len(slot.Root{})
}

// Append appends the canonical encoding.
func (o Opening) Append(b []byte) []byte {
	b = wire.AppendU64(appendRange(b, o.Range), math.Float64bits(o.NormSq))
	b = wire.AppendBytes(b, o.Bytes)
	b = slot.AppendRoots(wire.AppendU32(b, uint32(len(o.Inner))), o.Inner)
	return slot.AppendRoots(wire.AppendU32(b, uint32(len(o.Path))), o.Path)
}

// ReadOpening reads what Append wrote, with at most so many Bytes, which are not copied.
func ReadOpening(r *wire.Reader, most int) Opening {
	return Opening{
		Range: readRange(r), NormSq: math.Float64frombits(r.U64()), Bytes: r.Bytes(min(most, MaxFrameBytes)),
		Inner: readPath(r, MaxInner), Path: readPath(r, slot.MaxPath),
	}
}

func readPath(r *wire.Reader, most int) []slot.Root {
	n := r.Count(most, len(slot.Root{}))
	return slot.ParseRoots(r.Take(n * len(slot.Root{})))
}

// OpenContribution shows a range of a contribution to a fragment, which must be made of whole
// blocks of one frame. Bytes are not copied. The range may come from a stranger.
func OpenContribution(p allreduce.Params, fragment uint32, c *allreduce.Contribution, r slot.Range) (Opening, error) {
	if uint64(fragment) >= uint64(len(p.Fragments)) {
		return Opening{}, fmt.Errorf("%w: fragment %d", errRange, fragment)
	}
	g := gridsOf(p, fragment)
	s, err := g.span(r)
	if err != nil {
		return Opening{}, err
	}
	if len(c.Bytes()) != g.in.TotalBytes {
		return Opening{}, fmt.Errorf("%w: the contribution is to another fragment", errRange)
	}
	o := show(g.in, g.in.Frame(c.Bytes(), s.frame), c.Groups(s.frame), s)
	o.Range, o.NormSq, o.Path = r, c.Leaves()[s.frame].NormSq, c.Path(s.frame)
	return o, nil
}

// OpenOutcome shows a range of the segment's outcome: of a frame, given its bytes and the hashes of
// all frames of the segment. Bytes are not copied.
func (s *Segment) OpenOutcome(hashes []slot.Root, frame []byte, r slot.Range) (Opening, error) {
	at, err := s.within(r)
	if err != nil {
		return Opening{}, err
	}
	_, last := s.out.FramesOf(s.Range)
	if len(hashes) != last-s.first || len(frame) != s.out.FrameSize(at.frame) {
		return Opening{}, fmt.Errorf("%w: %d hashes and a frame of %d bytes are not those of the segment", errRange,
			len(hashes), len(frame))
	}
	o := show(s.out, frame, nil, at)
	o.Range, o.Path = r, slot.FramePath(hashes, at.frame-s.first)
	return o, nil
}

// OutcomeBytes is where a range lies in the encoded outcome of the segment.
func (s *Segment) OutcomeBytes(r slot.Range) (begin, end int64, err error) {
	at, err := s.within(r)
	if err != nil {
		return 0, 0, err
	}
	first, last := bytesOf(s.out, at)
	frame := int64(at.frame-s.first) * int64(s.out.FrameBytes)
	return frame + int64(first), frame + int64(last), nil
}

// bytesOf is where a span lies in its encoded frame.
func bytesOf(g plan.Grid, s span) (begin, end int) {
	return g.Codec.EncodedSize(s.begin), g.Codec.EncodedSize(s.end)
}

// show is the opening of a span within its frame. groups are those of the frame; without them it is
// hashed.
func show(g plan.Grid, frame []byte, groups []slot.Root, s span) Opening {
	begin, end := bytesOf(g, s)
	first, last := wire.HashChunks(begin, end, len(frame))
	return Opening{Bytes: frame[first:last:last], Inner: wire.OpenTree(frame, groups, begin, end)}
}

// hash is the hash of the frame that an opening of a span is of, and the span's own bytes.
func (o Opening) hash(g plan.Grid, s span) (hash slot.Root, encoded []byte, err error) {
	begin, end := bytesOf(g, s)
	size := g.FrameSize(s.frame)
	first, last := wire.HashChunks(begin, end, size)
	if len(o.Bytes) != last-first {
		return hash, nil, fmt.Errorf("%w: %d bytes where elements %d..%d lie in %d", ErrOpening, len(o.Bytes),
			o.Range.Begin, o.Range.End, last-first)
	}
	hash, _, ok := wire.HashCut(o.Bytes, first, size, o.Inner, 0, size)
	if !ok {
		return hash, nil, fmt.Errorf("%w: the path within the frame has %d values, which is not its length", ErrOpening,
			len(o.Inner))
	}
	return hash, o.Bytes[begin-first : end-first], nil
}

// narrow is an opening of a part of another one's span.
func (o Opening) narrow(g plan.Grid, from, to span, r slot.Range) Opening {
	begin, end := bytesOf(g, from)
	size := g.FrameSize(from.frame)
	at, _ := wire.HashChunks(begin, end, size)
	begin, end = bytesOf(g, to)
	_, inner, _ := wire.HashCut(o.Bytes, at, size, o.Inner, begin, end)
	first, last := wire.HashChunks(begin, end, size)
	o.Range, o.Bytes, o.Inner = r, o.Bytes[first-at:last-at:last-at], inner
	return o
}
