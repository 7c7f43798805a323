package statesync

import (
	"fmt"

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

// segment finds a segment on disk, or among those that are in memory alone.
func (s *Server) segment(root slot.Root) (segmentReader, error) {
	r, err := s.store.Segment(root)
	if err == nil {
		return r, nil
	}
	if s.cfg.Loose != nil {
		if b := s.cfg.Loose(root); b != nil {
			return loose{b, s.store.FrameBytes()}, nil
		}
	}
	return nil, err
}

// loose is a segment in memory.
type loose struct {
	b          []byte
	frameBytes int
}

func (l loose) Size() int64   { return int64(len(l.b)) }
func (l loose) Frames() int64 { return frameCount(l.Size(), l.frameBytes) }
func (l loose) Close() error  { return nil }

func (l loose) Hashes() ([]byte, error) {
	var b []byte
	for _, h := range slot.FrameHashes(l.b, l.frameBytes) {
		b = append(b, h[:]...)
	}
	return b, nil
}

func (l loose) Frame(dst []byte, k int64, _ []byte) ([]byte, error) {
	if k < 0 || k >= l.Frames() {
		return dst, fmt.Errorf("statesync: frame %d of %d", k, l.Frames())
	}
	first := k * int64(l.frameBytes)
	return append(dst, l.b[first:min(first+int64(l.frameBytes), l.Size())]...), nil
}
