package replica

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// An owner can sign bytes that no encoder writes. They are not held, so no record of them is
// certified: nobody could ever apply it.
func TestUnreadableOutcomesAreNotHeld(t *testing.T) {
	const frame, elements = 512, 1300 // the second segment ends with a part of a frame
	ones := bytes.Repeat([]byte{0xff}, 4*elements)
	last := func(x float32) []byte { return binary.LittleEndian.AppendUint32(nil, math.Float32bits(x)) }
	for _, c := range []struct {
		codec string
		end   []byte // of the second segment, as the owner signs it; nil: as it is
	}{
		{codec.Int8, nil},
		{codec.Int8, ones},
		{codec.Int4, ones},
		{codec.BF16, nil},
		{codec.BF16, ones},
		{codec.F32, nil},
		{codec.F32, last(float32(math.NaN()))},
		{codec.F32, last(3e38)}, // the outer momentum would overflow
	} {
		out, _ := codec.NewOutcome(c.codec, "")
		m := &model{codec: out, run: Run{Params: allreduce.Params{FrameElements: frame}}}
		segments := []slot.Segment{
			{Range: slot.Range{End: frame}}, {Range: slot.Range{Begin: frame, End: elements}},
		}
		x := make([]float32, frame)
		for i := range x {
			x[i] = float32(i%17) - 8
		}
		data := [][]byte{m.codec.Append(nil, x), m.codec.Append(m.codec.Append(nil, x), x[:elements-2*frame])}
		b := data[1]
		copy(b[max(0, len(b)-len(c.end)):], c.end)
		size := m.frameBytes()
		err := m.readable(segments, []slot.Frames{slot.Cut(data[0], size), slot.Cut(data[1], size)}, nil)
		missing := missingError{}
		if errors.As(err, &missing) != (c.end != nil) ||
			c.end != nil && !slices.Equal(missing.ranges, []slot.Range{segments[1].Range}) {
			t.Errorf("%s ending with %x: %v", c.codec, c.end, err)
		}
	}
}
