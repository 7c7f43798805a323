package trainer

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"
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
	Name  string   `json:"name"`
	Shape []uint64 `json:"shape"` // an empty shape is a scalar
}

// Elements is the product of the shape.
func (t Tensor) Elements() uint64 {
	n := uint64(1)
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

// Layout is the ordered list of tensors that make up the model. The model is one flat float32
// vector of Elements() values, the tensors one after the other in this order, each row-major.
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

// Validate says what is wrong with a layout: no tensors, empty, overlong or repeated names, empty
// dimensions, sizes that overflow.
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
				return fmt.Errorf("tensor %q has shape %v: dimensions of 1 to %d are allowed", t.Name, t.Shape,
					uint64(MaxElements))
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

// Append appends the canonical encoding, which is what peers compare and hash: the number of
// tensors (4 bytes), and for each its name's length (4 bytes), its name, its number of dimensions
// (1 byte) and the dimensions (8 bytes each), all big-endian.
func (l Layout) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(l)))
	for _, t := range l {
		b = binary.BigEndian.AppendUint32(b, uint32(len(t.Name)))
		b = append(append(b, t.Name...), uint8(len(t.Shape)))
		for _, d := range t.Shape {
			b = binary.BigEndian.AppendUint64(b, d)
		}
	}
	return b
}
