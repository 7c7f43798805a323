package plugin

import (
	"errors"
	"fmt"

	"github.com/p2pdiloco/p2pdiloco/trainer"
)

const (
	maxTensors = 1 << 16
	maxDims    = 8
)

var dtypes = map[uint32]string{1: "f32", 2: "bf16", 3: "f16"}

// parseLayout reads and checks what library_layout wrote. types has the type of each live tensor.
func parseLayout(b []byte) (layout trainer.Layout, types []string, err error) {
	r := layoutReader{b}
	n, ok := r.u32()
	if !ok || n == 0 || n > maxTensors || int(n) > len(b)/12 {
		return nil, nil, errShort
	}
	for i := range n {
		t, dtype, err := r.tensor()
		if err != nil {
			return nil, nil, fmt.Errorf("tensor %d: %w", i, err)
		}
		layout, types = append(layout, t), append(types, dtype)
	}
	return layout, types, layout.Validate()
}

var errShort = errors.New("the host's description of it is cut short")

type layoutReader struct{ rest []byte }

func (r *layoutReader) u32() (v uint32, ok bool) {
	if len(r.rest) < 4 {
		return 0, false
	}
	v, r.rest = native.Uint32(r.rest), r.rest[4:]
	return v, true
}

func (r *layoutReader) take(n int) (b []byte, ok bool) {
	if n < 0 || len(r.rest) < n {
		return nil, false
	}
	b, r.rest = r.rest[:n], r.rest[n:]
	return b, true
}

func (r *layoutReader) tensor() (t trainer.Tensor, dtype string, err error) {
	n, ok1 := r.u32()
	name, ok2 := r.take(int(n))
	kind, ok3 := r.u32()
	dims, ok4 := r.u32()
	if !ok1 || !ok2 || !ok3 || !ok4 {
		return t, "", errShort
	}
	t.Name = string(name)
	if dtype = dtypes[kind]; dtype == "" {
		return t, "", fmt.Errorf("%.40q has the unknown type %d: P2PDILOCO_F32, _BF16 or _F16 are allowed", t.Name,
			kind)
	}
	if dims > maxDims {
		return t, "", fmt.Errorf("%.40q has %d dimensions: at most %d are allowed", t.Name, dims, maxDims)
	}
	for range dims {
		d, ok := r.take(8)
		if !ok {
			return t, "", errShort
		}
		t.Shape = append(t.Shape, native.Uint64(d))
	}
	return t, dtype, nil
}

// tensorAt names the tensor that holds an element of the flat vector, and the element's place in
// it.
func tensorAt(l trainer.Layout, element uint64) (name string, index uint64) {
	for _, t := range l {
		if n := t.Elements(); element >= n {
			element -= n
			continue
		}
		return t.Name, element
	}
	return "", element
}
