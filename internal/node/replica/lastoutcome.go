package replica

import (
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// frameBefore fills dst with frame f of the newest outcome of a fragment below a slot. It is false
// where that is not held, or long ago.
func (m *model) frameBefore(slotNumber uint64, fragment uint32, f int, dst []float32) bool {
	record, ok := m.stepBefore(slotNumber, fragment)
	if !ok {
		return false
	}
	begin := uint64(f) * uint64(m.run.Params.FrameElements)
	i := slices.IndexFunc(record.Segments, func(s slot.Segment) bool {
		return s.Range.Begin <= begin && begin+uint64(len(dst)) <= s.Range.End
	})
	if i < 0 {
		return false
	}
	held, err := m.store.OwnSegment(record.Segments[i].Root)
	if err != nil {
		return false
	}
	defer held.Close()
	hashes, err := held.Hashes()
	if err != nil {
		return false
	}
	k := int64(begin-record.Segments[i].Range.Begin) / int64(m.run.Params.FrameElements)
	frame, err := held.Frame(nil, k, hashes)
	return err == nil && m.codec.Decode(dst, frame) == nil
}

// stepBefore finds the newest record applied that has updated a fragment before a slot.
func (m *model) stepBefore(slotNumber uint64, fragment uint32) (none slot.Record, ok bool) {
	const members = 16 // records in between that are no steps
	at, _ := m.state.position()
	lowest := at.Height - min(at.Height, members+2*uint64(len(m.run.Fragments)))
	for h := at.Height; h > lowest; h-- {
		c, ok := m.certified(h)
		if ok && c.Record.Kind == slot.Step && c.Record.Fragment == fragment && c.Record.Slot < slotNumber {
			return c.Record, true
		}
	}
	return none, false
}
