package slot

import (
	"fmt"

	"github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// Tensor and Layout are the model's tensors, as a trainer describes them.
type (
	Tensor = trainer.Tensor
	Layout = trainer.Layout
)

// NotFinite says where values, flat as a layout has them, hold the first NaN or infinity; nil is
// nowhere.
func NotFinite(l Layout, values []float32) error {
	for _, t := range l {
		n := t.Elements()
		for i, v := range values[:n] {
			if v-v != 0 { //nolint:staticcheck // NaN and infinity alone
				return fmt.Errorf("tensor %q has %v in element %d", t.Name, v, i)
			}
		}
		values = values[n:]
	}
	return nil
}

// ReadLayout reads what Layout.Append wrote. It does not Validate.
func ReadLayout(r *wire.Reader) Layout {
	n := r.Count(trainer.MaxTensors, 5)
	l := make(Layout, 0, n)
	for range n {
		t := Tensor{Name: string(r.Bytes(trainer.MaxTensorName))}
		dims := int(r.U8())
		if dims > trainer.MaxDims {
			r.Fail("%d dimensions", dims)
		}
		for i := 0; i < dims && r.Err() == nil; i++ {
			t.Shape = append(t.Shape, r.U64())
		}
		l = append(l, t)
	}
	return l
}
