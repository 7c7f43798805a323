package kernel

import (
	"bytes"
	"testing"
	"unsafe"
)

func TestViews(t *testing.T) {
	x, want := []float32{1, -2}, []byte{0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0}
	loop, y := make([]byte, 8), make([]float32, 2)
	putLoop(loop, x)
	if !bytes.Equal(Bytes(x), want) || !bytes.Equal(loop, want) {
		t.Errorf("got %x and %x, want %x", Bytes(x), loop, want)
	}
	getLoop(y, want)
	equalBits(t, "getLoop", y, x)
	clear(y)
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
	if written, ok := Overlay(loop); ok {
		written[1] = 1
		equalBits(t, "after writing through the overlay", Float32s(loop), []float32{1, 1})
	} else if littleEndian {
		t.Error("no overlay of aligned bytes")
	}
	b, ok := View(x)
	if ok != littleEndian {
		t.Fatalf("ok is %v on a host with littleEndian=%v", ok, littleEndian)
	}
	if ok {
		copy(b, want[4:])
		equalBits(t, "after writing through the view", x, []float32{-2, -2})
	}
}
