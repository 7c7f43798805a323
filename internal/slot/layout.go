package slot

import (
	"fmt"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// Caps of a layout.
const (
	MaxTensors    = 1 << 16
	MaxTensorName = 256 // bytes
	MaxDims       = 8
	MaxElements   = 1 << 40
)

// Tensor is one named tensor of the model.
type Tensor struct {
	Name  string   `toml:"name" json:"name"`
	Shape []uint64 `toml:"shape" json:"shape"` // an empty shape is a scalar
}

// Elements is the product of the shape.
func (t Tensor) Elements() uint64 {
	n := uint64(1)
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

// Layout is the ordered list of tensors that make up the model. The model is one flat float32 vector of Elements() values,
// the tensors one after the other in this order, each row-major.
type Layout []Tensor

// Elements is D, the length of the flat vector.
func (l Layout) Elements() (d uint64) {
	for _, t := range l {
		d += t.Elements()
	}
	return d
}

// At names the tensor that an element of the flat vector belongs to; "" for one beyond the last.
func (l Layout) At(element uint64) string {
	for _, t := range l {
		n := t.Elements()
		if element < n {
			return t.Name
		}
		element -= n
	}
	return ""
}

// Validate says what is wrong with a layout: no tensors, empty, overlong or repeated names, empty dimensions, sizes that overflow.
func (l Layout) Validate() error {
	if len(l) == 0 || len(l) > MaxTensors {
		return fmt.Errorf("layout has %d tensors: 1 to %d are allowed", len(l), MaxTensors)
	}
	seen := make(map[string]bool, len(l))
	total := uint64(0)
	for _, t := range l {
		if t.Name == "" || len(t.Name) > MaxTensorName || !utf8.ValidString(t.Name) {
			return fmt.Errorf("tensor name %.40q: 1 to %d bytes of UTF-8 are allowed", t.Name, MaxTensorName)
		}
		if seen[t.Name] {
			return fmt.Errorf("tensor %q is listed twice", t.Name)
		}
		seen[t.Name] = true
		if len(t.Shape) > MaxDims {
			return fmt.Errorf("tensor %q has %d dimensions: at most %d are allowed", t.Name, len(t.Shape), MaxDims)
		}
		n := uint64(1)
		for _, d := range t.Shape {
			if d == 0 || d > MaxElements || n > math.MaxUint64/d {
				return fmt.Errorf("tensor %q has shape %v: dimensions of 1 to %d are allowed", t.Name, t.Shape, uint64(MaxElements))
			}
			n *= d
		}
		if n > MaxElements || total+n > MaxElements {
			return fmt.Errorf("tensor %q: more than %d elements in all", t.Name, uint64(MaxElements))
		}
		total += n
	}
	return nil
}

// Diff says how two layouts differ, naming the first tensor that does; "" when they are equal.
func (l Layout) Diff(other Layout) string {
	for i := range min(len(l), len(other)) {
		a, b := l[i], other[i]
		if a.Name != b.Name || !slices.Equal(a.Shape, b.Shape) {
			return fmt.Sprintf("tensor %d is %q %v here and %q %v there", i, a.Name, a.Shape, b.Name, b.Shape)
		}
	}
	if len(l) != len(other) {
		return fmt.Sprintf("%d tensors here and %d there", len(l), len(other))
	}
	return ""
}

// Append appends the canonical encoding.
func (l Layout) Append(b []byte) []byte {
	b = wire.AppendU32(b, uint32(len(l)))
	for _, t := range l {
		b = wire.AppendBytes(b, t.Name)
		b = wire.AppendU8(b, uint8(len(t.Shape)))
		for _, d := range t.Shape {
			b = wire.AppendU64(b, d)
		}
	}
	return b
}

// ReadLayout reads what Append wrote. It does not Validate.
func ReadLayout(r *wire.Reader) Layout {
	n := r.Count(MaxTensors, 5)
	l := make(Layout, 0, n)
	for range n {
		t := Tensor{Name: string(r.Bytes(MaxTensorName))}
		dims := int(r.U8())
		if dims > MaxDims {
			r.Fail("%d dimensions", dims)
		}
		for i := 0; i < dims && r.Err() == nil; i++ {
			t.Shape = append(t.Shape, r.U64())
		}
		l = append(l, t)
	}
	return l
}
