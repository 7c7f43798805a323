package kernel

import (
	"bytes"
	"testing"
	"unsafe"
)

func TestViews(t *testing.T) {
	x, want := []float32{1, -2}, []byte{0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0}
	y := make([]float32, 2)
	if !bytes.Equal(Bytes(x), want) {
		t.Errorf("got %x, want %x", Bytes(x), want)
	}
	GetFloat32s(y, want)
	equalBits(t, "GetFloat32s", y, x)
	for shift := range 4 { // of four neighbours three are misaligned
		got := Float32s(append(make([]byte, shift), want...)[shift:])
		equalBits(t, "Float32s", got, x)
		if p := uintptr(unsafe.Pointer(unsafe.SliceData(got))); p%unsafe.Alignof(got[0]) != 0 {
			t.Fatalf("elements at %x are not aligned", p)
		}
	}
	if _, ok := Overlay(want[:7]); ok {
		t.Error("a view that ends within an element")
	}
	if written, ok := Overlay(Bytes(y)); ok {
		written[1] = 1
		equalBits(t, "after writing through the overlay", y, []float32{1, 1})
	} else {
		t.Error("no overlay of aligned bytes")
	}
	copy(Bytes(x), want[4:])
	equalBits(t, "after writing through the view", x, []float32{-2, -2})
}
