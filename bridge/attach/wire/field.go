package wire

import (
	"encoding/binary"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/p2pdiloco/p2pdiloco/trainer"
)

var le = binary.LittleEndian

// field is one field of a message: a tag, and a *uint64, *float64, *string, *[]byte, *[]Tensor or
// *[]Piece. Those of the last two are repeated, a *Tensor or *Piece each.
type field struct {
	tag   uint16
	value any
}

// append appends the field, unless it is 0 or empty.
func (f field) append(b []byte) []byte {
	at := len(b)
	b = le.AppendUint64(b, uint64(f.tag)) // u16 tag, u16 0, u32 bytes
	switch v := f.value.(type) {
	case *uint64:
		if *v != 0 {
			b = le.AppendUint64(b, *v)
		}
	case *float64:
		if *v != 0 {
			b = le.AppendUint64(b, math.Float64bits(*v))
		}
	case *string:
		b = append(b, *v...)
	case *[]byte:
		b = append(b, *v...)
	case *Tensor:
		b = v.append(b)
	case *Piece:
		b = v.append(b)
	case *[]Tensor:
		return appendEach(b[:at], f.tag, *v)
	case *[]Piece:
		return appendEach(b[:at], f.tag, *v)
	}
	if len(b) == at+8 {
		return b[:at]
	}
	le.PutUint32(b[at+4:], uint32(len(b)-at-8))
	return b
}

func appendEach[T any](b []byte, tag uint16, list []T) []byte {
	for i := range list {
		b = field{tag, &list[i]}.append(b)
	}
	return b
}

// set takes in a value.
func (f field) set(b []byte) (err error) {
	switch v := f.value.(type) {
	case *uint64:
		*v, err = number(b)
	case *float64:
		var bits uint64
		bits, err = number(b)
		*v = math.Float64frombits(bits)
	case *string:
		if !utf8.Valid(b) || len(b) > MaxText {
			return malformed("a text of %d bytes: at most %d of UTF-8 are allowed", len(b), MaxText)
		}
		*v = string(b)
	case *[]byte:
		*v = slices.Clone(b)
	case *[]Tensor:
		var t Tensor
		t, err = parseTensor(b)
		*v = append(*v, t)
	case *[]Piece:
		var p Piece
		p, err = parsePiece(b)
		*v = append(*v, p)
	}
	return err
}

// repeats says whether a message may have the field more than once.
func (f field) repeats() bool {
	switch f.value.(type) {
	case *[]Tensor, *[]Piece:
		return true
	}
	return false
}

func number(b []byte) (uint64, error) {
	if len(b) != 8 {
		return 0, malformed("a number of %d bytes: 8 are allowed", len(b))
	}
	return le.Uint64(b), nil
}

// Tensor is one tensor of the model, with its whole shape: u32 type, u32 number of dimensions, u64
// for each of them, then the name.
type Tensor struct {
	trainer.Tensor
	DType uint64 // of the live tensor; what is in memory is float32
}

// Types of live tensors.
const (
	F32  = 1
	BF16 = 2
	F16  = 3
)

func (t Tensor) append(b []byte) []byte {
	b = le.AppendUint32(le.AppendUint32(b, uint32(t.DType)), uint32(len(t.Shape)))
	return append(appendNumbers(b, t.Shape), t.Name...)
}

func parseTensor(b []byte) (t Tensor, err error) {
	if len(b) < 8 {
		return t, malformed("a tensor of %d bytes", len(b))
	}
	dtype, dims := le.Uint32(b), le.Uint32(b[4:])
	if b = b[8:]; dims > trainer.MaxDims || len(b) < int(8*dims) {
		return t, malformed("a tensor of %d dimensions in %d bytes: at most %d are allowed", dims, len(b),
			trainer.MaxDims)
	}
	if dtype < F32 || dtype > F16 {
		return t, malformed("a tensor of type %d: 1 (f32), 2 (bf16) and 3 (f16) are allowed", dtype)
	}
	t.DType, t.Shape = uint64(dtype), numbers(b[:8*dims])
	if b = b[8*dims:]; len(b) > trainer.MaxTensorName || !utf8.Valid(b) {
		return t, malformed("a tensor name of %d bytes: at most %d of UTF-8 are allowed", len(b), trainer.MaxTensorName)
	}
	t.Name = string(b)
	return t, nil
}

// Piece is a part of a tensor that a rank holds: a box, or a flat range of its elements, as a list
// of u64: tensor, form, then
//
//	form 0, box          the offset in each dimension, then the extent in each
//	form 1, flat range   first element, number of elements
//
// Extents may be 0. All of a scalar is a box without dimensions.
type Piece struct {
	Tensor  uint64 // its place in the layout, from 0
	Flat    bool
	Offsets []uint64 // one number if Flat
	Extents []uint64 // as many
}

func (p Piece) append(b []byte) []byte {
	form := uint64(0)
	if p.Flat {
		form = 1
	}
	return appendNumbers(b, slices.Concat([]uint64{p.Tensor, form}, p.Offsets, p.Extents))
}

func parsePiece(b []byte) (p Piece, err error) {
	if len(b) < 16 || len(b)%16 != 0 || len(b) > 16+16*trainer.MaxDims {
		return p, malformed("a piece of %d bytes", len(b))
	}
	list := numbers(b)
	n := (len(list) - 2) / 2
	if list[1] > 1 || list[1] == 1 && n != 1 {
		return p, malformed("a piece of form %d with %d offsets", list[1], n)
	}
	return Piece{Tensor: list[0], Flat: list[1] == 1, Offsets: list[2 : 2+n], Extents: list[2+n:]}, nil
}

func appendNumbers(b []byte, list []uint64) []byte {
	for _, x := range list {
		b = le.AppendUint64(b, x)
	}
	return b
}

func numbers(b []byte) []uint64 {
	list := make([]uint64, len(b)/8)
	for i := range list {
		list[i] = le.Uint64(b[8*i:])
	}
	return list
}
