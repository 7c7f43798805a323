package statesync

import (
	"fmt"

	"github.com/p2pdiloco/p2pdiloco/internal/checkpoint"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// segmentReader is a segment to serve, frame by frame.
type segmentReader interface {
	Size() int64
	Frames() int64
	Hashes() ([]byte, error)
	Frame(dst []byte, k int64, hashes []byte) ([]byte, error)
	Close() error
}

// openSegment finds a segment in the store, or among those that are only in memory.
func openSegment(store *checkpoint.Store, inMemory func(slot.Root) []byte, root slot.Root) (segmentReader, error) {
	r, err := store.Segment(root)
	if err == nil {
		return r, nil
	}
	if inMemory != nil {
		if b := inMemory(root); b != nil {
			return memorySegment{b, store.FrameBytes()}, nil
		}
	}
	return nil, err
}

// memorySegment is a segment in memory.
type memorySegment struct {
	b          []byte
	frameBytes int
}

func (m memorySegment) Size() int64   { return int64(len(m.b)) }
func (m memorySegment) Frames() int64 { return frameCount(m.Size(), m.frameBytes) }
func (m memorySegment) Close() error  { return nil }

func (m memorySegment) Hashes() ([]byte, error) {
	var b []byte
	for _, h := range slot.FrameHashes(m.b, m.frameBytes) {
		b = append(b, h[:]...)
	}
	return b, nil
}

func (m memorySegment) Frame(dst []byte, k int64, _ []byte) ([]byte, error) {
	if k < 0 || k >= m.Frames() {
		return dst, fmt.Errorf("statesync: frame %d of %d", k, m.Frames())
	}
	first := k * int64(m.frameBytes)
	return append(dst, m.b[first:min(first+int64(m.frameBytes), m.Size())]...), nil
}
