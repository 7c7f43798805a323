package statesync

import (
	"errors"
	"strings"

	"github.com/p2pdiloco/p2pdiloco/internal/checkpoint"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// Bounds on what one request may ask for.
const (
	maxChunk      = 4 * checkpoint.GroupBytes // bytes of a state in one request
	maxFrameCount = 64                        // frames of a segment in one request
	maxFrameBytes = 16 << 20                  // bytes of those frames
	maxListed     = 64                        // checkpoints in one list
)

// A request is requestSize bytes: requestMagic | type u8 | 3 zeros | root | offset u64 | length
// u64. Many requests may follow each other on a stream; each is answered before the next one is
// read.
const (
	requestMagic = "pds1"
	requestSize  = 4 + 4 + 32 + 8 + 8
)

type requestType uint8

// The enumeration only grows.
const (
	// askList wants the checkpoints held: one block, a count u32 and for each height, slot u64,
	// root, size u64.
	askList requestType = 1
	// askChunk wants length bytes of the state with this root from offset on: one block, a slice
	// (checkpoint.AppendSlice).
	askChunk requestType = 2
	// askFrames wants length frames of the segment with this root, from frame number offset on: a
	// block with the hashes of all the segment's frames, then a block for each frame.
	askFrames requestType = 3
	// askFramesOnly is askFrames without the block of hashes, for a client that has them.
	askFramesOnly requestType = 4
)

type request struct {
	Type   requestType
	Root   slot.Root
	Offset uint64
	Length uint64
}

func (q request) append(b []byte) []byte {
	b = append(b, requestMagic...)
	b = append(b, byte(q.Type), 0, 0, 0)
	b = append(b, q.Root[:]...)
	return wire.AppendU64(wire.AppendU64(b, q.Offset), q.Length)
}

func parseRequest(b []byte) (request, error) {
	r := wire.NewReader(b)
	if m := r.Take(len(requestMagic)); string(m) != requestMagic {
		r.Fail("no request")
	}
	q := request{Type: requestType(r.U8())}
	if z := r.Take(3); strings.Trim(string(z), "\x00") != "" {
		r.Fail("reserved bytes are not zero")
	}
	copy(q.Root[:], r.Take(len(q.Root)))
	q.Offset, q.Length = r.U64(), r.U64()
	switch q.Type {
	case askList:
		if q != (request{Type: askList}) {
			r.Fail("a list has no range")
		}
	case askChunk:
		if q.Length == 0 || q.Length > maxChunk {
			r.Fail("chunk of %d bytes", q.Length)
		}
	case askFrames, askFramesOnly:
		if q.Length == 0 || q.Length > maxFrameCount {
			r.Fail("%d frames", q.Length)
		}
	default:
		r.Fail("request type %d", q.Type)
	}
	return q, r.Done()
}

// A block is blockHead bytes (status u8 | encoding u8 | 2 zeros | decoded bytes u32 | sent bytes
// u32) and the bytes sent.
const blockHead = 12

type status uint8

// The enumeration only grows.
const (
	statusOK      status = 1
	statusNotHeld status = 2 // not or no longer; no bytes follow
	statusBusy    status = 3 // ask again later; the stream ends
	statusSpent   status = 4 // a newcomer's quota is spent: ask others; the stream ends
)

// encoding says how a block's bytes travel.
type encoding uint8

// The enumeration only grows.
const (
	plain     encoding = 0
	zstdWhole encoding = 1
	// byte k of every 4 together, for k = 0..3, each such plane a zstd frame (what is left over
	// belongs to the last)
	zstdPlanes encoding = 2
)

type head struct {
	Status   status
	Encoding encoding
	Size     uint32 // decoded
	Sent     uint32
}

func (h head) append(b []byte) []byte {
	b = append(b, byte(h.Status), byte(h.Encoding), 0, 0)
	return wire.AppendU32(wire.AppendU32(b, h.Size), h.Sent)
}

func parseHead(b []byte) (head, error) {
	r := wire.NewReader(b)
	h := head{Status: status(r.U8()), Encoding: encoding(r.U8())}
	if r.U16() != 0 {
		r.Fail("reserved bytes are not zero")
	}
	h.Size, h.Sent = r.U32(), r.U32()
	switch {
	case h.Status < statusOK || h.Status > statusSpent:
		r.Fail("status %d", h.Status)
	case h.Encoding > zstdPlanes:
		r.Fail("encoding %d", h.Encoding)
	case h.Status != statusOK && (h.Encoding != plain || h.Size != 0 || h.Sent != 0):
		r.Fail("a refusal carries no bytes")
	case h.Encoding == plain && h.Sent != h.Size, h.Encoding != plain && h.Sent >= h.Size:
		r.Fail("%d bytes sent for %d", h.Sent, h.Size)
	}
	return h, r.Done()
}

// appendList encodes an answer to askList.
func appendList(b []byte, list []checkpoint.Checkpoint) []byte {
	list = list[:min(len(list), maxListed)]
	b = wire.AppendU32(b, uint32(len(list)))
	for _, c := range list {
		b = wire.AppendU64(wire.AppendU64(b, c.Height), c.Slot)
		b = wire.AppendU64(append(b, c.Root[:]...), uint64(c.Size))
	}
	return b
}

const listEntry = 8 + 8 + 32 + 8

func parseList(b []byte) ([]checkpoint.Checkpoint, error) {
	r := wire.NewReader(b)
	list := make([]checkpoint.Checkpoint, 0, r.Count(maxListed, listEntry))
	for range cap(list) {
		c := checkpoint.Checkpoint{Height: r.U64(), Slot: r.U64()}
		copy(c.Root[:], r.Take(len(c.Root)))
		size := r.U64()
		if c.Size = int64(size); c.Size < 0 {
			r.Fail("state of %d bytes", size)
		}
		list = append(list, c)
	}
	return list, r.Done()
}

// appendHashes encodes the first block of an answer to askFrames: segment bytes u64 | frame bytes
// u32 | hashes.
func appendHashes(b []byte, size int64, frameBytes int, hashes []slot.Root) []byte {
	return slot.AppendRoots(wire.AppendU32(wire.AppendU64(b, uint64(size)), uint32(frameBytes)), hashes)
}

const hashesHead = 8 + 4

// parseHashes parses the answer of appendHashes for a segment that must have this size, frame size
// and root.
func parseHashes(b []byte, size int64, frameBytes int, root slot.Root) ([]slot.Root, error) {
	r := wire.NewReader(b)
	if got, fb := r.U64(), r.U32(); got != uint64(size) || fb != uint32(frameBytes) {
		r.Fail("segment of %d bytes in frames of %d, not %d and %d", got, fb, size, frameBytes)
	}
	hashes := slot.ParseRoots(r.Take(r.Len() / len(slot.Root{}) * len(slot.Root{})))
	if err := r.Done(); err != nil {
		return nil, err
	}
	if slot.FrameRoot(hashes, frameBytes, uint64(size)) != root {
		return nil, errors.New("the frame hashes do not belong to the segment")
	}
	return hashes, nil
}

// frameCount is the number of frames of a segment of size bytes.
func frameCount(size int64, frameBytes int) int64 {
	return (size + int64(frameBytes) - 1) / int64(frameBytes)
}
