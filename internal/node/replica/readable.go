package replica

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/p2pdiloco/p2pdiloco/internal/checkpoint"
	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

var errUnreadable = errors.New("no values that an encoder writes: its owner has signed other bytes")

// readable says whether the bytes of an outcome are values that a mean of contributions can have.
// It reads what was not written ahead, on all cores. An error is a missingError with the segments
// that are not.
func (m *model) readable(segments []slot.Segment, data []slot.Frames, ahead *checkpoint.Begun) error {
	var next atomic.Int64
	bad := make([]bool, len(segments))
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(segments)) {
		wg.Go(func() {
			values := make([]float32, m.run.Params.FrameElements)
			for i := next.Add(1) - 1; i < int64(len(segments)); i = next.Add(1) - 1 {
				bad[i] = !m.readableSegment(segments[i].Range, data[i], values, ahead)
			}
		})
	}
	wg.Wait()
	var none missingError
	for i, s := range segments {
		if bad[i] {
			none.ranges = append(none.ranges, s.Range)
			none.err = fmt.Errorf("the outcome's elements %d to %d are %w", s.Range.Begin, s.Range.End, errUnreadable)
		}
	}
	if none.err == nil {
		return nil
	}
	return none
}

// readableSegment looks at the frames of a segment that were not written ahead. values is room for
// one.
func (m *model) readableSegment(r slot.Range, data slot.Frames, values []float32, ahead *checkpoint.Begun) bool {
	if len(data.Bytes) != m.codec.EncodedSize(int(r.Len())) {
		return false
	}
	at, hashes := r.Begin, data.Hashes // of each frame
	for frame := range slices.Chunk(data.Bytes, m.frameBytes()) {
		if !ahead.Has(int(at)/len(values), hashes[0]) && !m.readableFrame(frame, values, r.End-at) {
			return false
		}
		at, hashes = at+uint64(len(values)), hashes[1:]
	}
	return true
}

// readableFrame looks at a frame, the first of what is due. values is room for one.
func (m *model) readableFrame(b []byte, values []float32, due uint64) bool {
	due = min(due, uint64(len(values)))
	got, err := m.values(b, values, slot.Range{End: due})
	return err == nil && kernel.BoundedMean(got) < 0
}
