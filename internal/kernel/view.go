package kernel

import (
	"encoding/binary"
	"math"
	"unsafe"
)

// float32Size is the number of bytes of an element.
const float32Size = 4

// littleEndian says whether memory already holds float32 values as they travel.
var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// View returns the memory of x as bytes, to be read and written as little-endian IEEE-754 values in
// place. ok is false on big-endian hosts, where there is no such view.
func View(x []float32) (b []byte, ok bool) {
	if !littleEndian {
		return nil, false
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), float32Size*len(x)), true
}

// Bytes returns x as little-endian bytes, 4 an element. It is for reading only: a view of x where
// there is one, else a copy. The view holds while x does.
func Bytes(x []float32) []byte {
	if b, ok := View(x); ok {
		return b
	}
	b := make([]byte, float32Size*len(x))
	putLoop(b, x)
	return b
}

// Float32s returns b, little-endian values of 4 bytes each, as elements. It is for reading only: a
// view of b where the host is little-endian and b is aligned to 4 bytes, else a copy. It panics if
// b ends within an element.
func Float32s(b []byte) []float32 {
	if x, ok := Overlay(b); ok {
		return x
	}
	x := make([]float32, elements(b))
	GetFloat32s(x, b)
	return x
}

// Overlay returns the memory of b as elements, to be read and written in place. ok is false where
// there is no such view: the host is big-endian, or b is not aligned to 4 bytes or ends within an
// element.
func Overlay(b []byte) (x []float32, ok bool) {
	p := unsafe.Pointer(unsafe.SliceData(b))
	if !littleEndian || uintptr(p)%unsafe.Alignof(float32(0)) != 0 || len(b)%float32Size != 0 {
		return nil, false
	}
	return unsafe.Slice((*float32)(p), len(b)/float32Size), true
}

// GetFloat32s reads dst from little-endian bytes. len(src) must be 4*len(dst).
func GetFloat32s(dst []float32, src []byte) {
	same(elements(src), len(dst))
	if b, ok := View(dst); ok {
		copy(b, src)
		return
	}
	getLoop(dst, src)
}

func elements(b []byte) int {
	if len(b)%float32Size != 0 {
		panic("kernel: bytes end within an element")
	}
	return len(b) / float32Size
}

func putLoop(dst []byte, src []float32) {
	for j, v := range src {
		binary.LittleEndian.PutUint32(dst[float32Size*j:], math.Float32bits(v))
	}
}

func getLoop(dst []float32, src []byte) {
	for j := range dst {
		dst[j] = math.Float32frombits(binary.LittleEndian.Uint32(src[float32Size*j:]))
	}
}
