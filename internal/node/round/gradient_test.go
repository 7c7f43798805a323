package round

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// A gradient is the same values however a fragment's ranges lie in the frames, from a caller's
// parameters or from local, and where it is kept, local has it. The error of a bad value has its
// element in the model, its tensor and its value, unless the start itself is bad.
func TestGradientOfAFragmentOfManyRanges(t *testing.T) {
	fragment := slot.Fragment{Ranges: []slot.Range{{Begin: 1, End: 4}, {Begin: 5, End: 6}, {Begin: 8, End: 15}}}
	p := allreduce.Params{
		Codec: "f32", Fragments: []uint64{fragment.Elements()}, FrameElements: 4, Aggregator: allreduce.Mean,
	}
	layout := trainer.Layout{{Name: "a", Shape: []uint64{8}}, {Name: "b", Shape: []uint64{8}}}
	for _, c := range []struct{ own, kept, fetched bool }{
		{own: true}, {own: true, kept: true}, {}, {fetched: true}, {kept: true, fetched: true},
	} {
		v := vectors{layout: layout, start: make([]float32, 16), local: make([]float32, 16)}
		params, want := make([]float32, 16), allreduce.Vector{}
		for i := range params {
			v.start[i], params[i] = float32(3*i), float32(i*i)
		}
		for _, r := range fragment.Ranges {
			for i := r.Begin; i < r.End; i++ {
				want = append(want, v.start[i]-params[i])
			}
		}
		g := &gradient{vectors: &v, fragment: fragment, own: v.local, kept: c.kept}
		switch {
		case c.own:
			g.params = params
		case c.fetched:
			g.fetch = func(_ []float32, ready func(uint64) error) error {
				g.params = v.local
				copy(v.local, params)
				return errors.Join(ready(5), ready(9))
			}
		default:
			if err := v.subtract(params, fragment.Ranges); err != nil {
				t.Fatal(err)
			}
		}
		right, err := allreduce.Encode(p, 0, "self", want, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := allreduce.Encode(p, 0, "self", g, nil)
		if err != nil || got.Root() != right.Root() || !slices.Equal(got.Bytes(), right.Bytes()) {
			t.Errorf("%+v: other bytes than those of the values, %v", c, err)
		}
		for _, r := range fragment.Ranges {
			if at := int(r.Begin); c.kept && v.local[at] != v.start[at]-params[at] {
				t.Errorf("%+v: it is not kept in element %d", c, at)
			}
		}
		params[9] = float32(math.NaN())
		g.params = params
		_, err = allreduce.Encode(p, 0, "self", g, nil)
		if !errors.Is(err, trainer.ErrNotFinite) || !strings.HasSuffix(err.Error(),
			`element 9 of 16 (tensor "b") is NaN: the inner steps diverged`) {
			t.Errorf("%+v: %v", c, err)
		}
		v.start[2] = float32(math.Inf(1))
		if _, err = allreduce.Encode(p, 0, "self", g, nil); !errors.As(err, new(badModel)) {
			t.Errorf("%+v: a bad start: %v", c, err)
		}
	}
}
