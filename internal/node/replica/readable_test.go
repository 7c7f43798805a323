package replica

import (
	"encoding/binary"
	"errors"
	"math"
	"reflect"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// An owner can sign bytes that no encoder writes. They are not held, so no record of them is
// certified: nobody could ever apply it.
func TestUnreadableOutcomesAreNotHeld(t *testing.T) {
	const frame, elements = 512, 1300 // the second segment ends with a part of a frame
	ones := func(b []byte) {
		for i := range b {
			b[i] = 0xff
		}
	}
	set := func(x float32) func(b []byte) {
		return func(b []byte) { binary.LittleEndian.PutUint32(b[len(b)-4:], math.Float32bits(x)) }
	}
	for name, c := range map[string]struct {
		codec string
		lie   func(b []byte)
		bad   bool
	}{
		"int8":             {codec.Int8, func([]byte) {}, false},
		"int8, all ones":   {codec.Int8, ones, true},
		"int4, all ones":   {codec.Int4, ones, true},
		"bf16":             {codec.BF16, func([]byte) {}, false},
		"bf16, all ones":   {codec.BF16, ones, true},
		"f32":              {codec.F32, func([]byte) {}, false},
		"f32, NaN at last": {codec.F32, set(float32(math.NaN())), true},
		"f32, 3e38":        {codec.F32, set(3e38), true}, // the outer momentum would overflow
	} {
		up, err := codec.New(c.codec)
		if err != nil {
			t.Fatal(err)
		}
		m := &model{codec: codec.Outcome(up), run: Run{Params: allreduce.Params{FrameElements: frame}}}
		segments := []slot.Segment{
			{Range: slot.Range{End: frame}}, {Range: slot.Range{Begin: frame, End: elements}},
		}
		var data [][]byte
		for _, s := range segments {
			x := make([]float32, s.Range.Len())
			for i := range x {
				x[i] = float32(i%17) - 8
			}
			var b []byte
			for len(x) > 0 {
				n := min(frame, len(x))
				b, x = m.codec.Append(b, x[:n]), x[n:]
			}
			data = append(data, b)
		}
		c.lie(data[1])
		err = m.readable(segments, data)
		missing := missingError{}
		if errors.As(err, &missing); c.bad != (err != nil) {
			t.Errorf("%s: %v", name, err)
		} else if c.bad && !reflect.DeepEqual(missing.ranges, []slot.Range{segments[1].Range}) {
			t.Errorf("%s: missing are %v", name, missing.ranges)
		}
	}
}
