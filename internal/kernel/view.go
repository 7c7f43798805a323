package kernel

import (
	"encoding/binary"
	"unsafe"
)

// float32Size is the number of bytes of an element.
const float32Size = 4

// Vectors travel and are kept as the memory of a little-endian processor has them. No run has
// others.
func init() {
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		panic("kernel: this processor is big-endian, for which there is no build")
	}
}

// Bytes returns the memory of x as bytes, to be read and written as little-endian IEEE-754 values
// in place. The view holds while x does.
func Bytes(x []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), float32Size*len(x))
}

// Float32s returns b, little-endian values of 4 bytes each, as elements. It is for reading only: a
// view of b where that is aligned to 4 bytes, else a copy. It panics if b ends within an element.
func Float32s(b []byte) []float32 {
	if x, ok := Overlay(b); ok {
		return x
	}
	x := make([]float32, len(b)/float32Size)
	GetFloat32s(x, b)
	return x
}

// Overlay returns the memory of b as elements, to be read and written in place. ok is false where
// there is no such view: b is not aligned to 4 bytes or ends within an element.
func Overlay(b []byte) (x []float32, ok bool) {
	p := unsafe.Pointer(unsafe.SliceData(b))
	if uintptr(p)%unsafe.Alignof(float32(0)) != 0 || len(b)%float32Size != 0 {
		return nil, false
	}
	return unsafe.Slice((*float32)(p), len(b)/float32Size), true
}

// GetFloat32s reads dst from little-endian bytes. len(src) must be 4*len(dst).
func GetFloat32s(dst []float32, src []byte) {
	same(len(src), float32Size*len(dst))
	copy(Bytes(dst), src)
}
