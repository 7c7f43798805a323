package replica

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

var errUnreadable = errors.New("no values that an encoder writes: its owner has signed other bytes")

// readable says whether the bytes of an outcome are values that a mean of contributions can have.
// It reads the outcome once, on all cores. An error is a missingError with the segments that are
// not.
func (m *model) readable(segments []slot.Segment, data []slot.Frames) error {
	var next atomic.Int64
	bad := make([]bool, len(segments))
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(segments)) {
		wg.Go(func() {
			values := make([]float32, m.run.Params.FrameElements)
			for i := next.Add(1) - 1; i < int64(len(segments)); i = next.Add(1) - 1 {
				bad[i] = !m.readableSegment(int(segments[i].Range.Len()), data[i].Bytes, values)
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

// readableSegment looks at a segment of n elements, frame by frame. values is room for one.
func (m *model) readableSegment(n int, data []byte, values []float32) bool {
	for ; n > 0; n -= len(values) {
		values = values[:min(n, len(values))]
		size := min(len(data), m.codec.EncodedSize(len(values)))
		got, err := m.values(data[:size], values, slot.Range{End: uint64(len(values))})
		if err != nil || kernel.BoundedMean(got) >= 0 {
			return false
		}
		data = data[size:]
	}
	return len(data) == 0
}
