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
	r := layoutReader{rest: b}
	n := r.u32()
	if n == 0 || n > maxTensors || int(n) > len(b)/12 {
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

type layoutReader struct {
	rest  []byte
	short bool // more was asked for than there is
}

// take is the next n bytes, or zeros if there are fewer.
func (r *layoutReader) take(n uint32) []byte {
	if uint64(n) > uint64(len(r.rest)) {
		r.rest, r.short = nil, true
		return make([]byte, min(n, 8))
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *layoutReader) u32() uint32 { return native.Uint32(r.take(4)) }

func (r *layoutReader) tensor() (t trainer.Tensor, dtype string, err error) {
	t.Name = string(r.take(r.u32()))
	kind, dims := r.u32(), r.u32()
	switch dtype = dtypes[kind]; {
	case r.short:
		return t, "", errShort
	case dtype == "":
		return t, "", fmt.Errorf("%.40q has the unknown type %d: P2PDILOCO_F32, _BF16 or _F16 are allowed", t.Name,
			kind)
	case dims > maxDims:
		return t, "", fmt.Errorf("%.40q has %d dimensions: at most %d are allowed", t.Name, dims, maxDims)
	}
	for range dims {
		t.Shape = append(t.Shape, native.Uint64(r.take(8)))
	}
	if r.short {
		return t, "", errShort
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
