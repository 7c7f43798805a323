package kernel

import (
	"bytes"
	"testing"
	"unsafe"

	"pgregory.net/rapid"
)

func TestBytesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.SliceOfN(finite(), 0, 40).Draw(t, "x")
		want := make([]byte, 4*len(x))
		putLoop(want, x)
		if got := Bytes(x); !bytes.Equal(got, want) {
			t.Fatalf("Bytes: got %x, want %x", got, want)
		}
		y := make([]float32, len(x))
		getLoop(y, want)
		equalBits(t, "getLoop", y, x)
		clear(y)
		GetFloat32s(y, want)
		equalBits(t, "GetFloat32s", y, x)
		for shift := range 4 { // of four neighbours three are misaligned
			moved := append(make([]byte, shift), want...)[shift:]
			got := Float32s(moved)
			equalBits(t, "Float32s", got, x)
			if p := uintptr(unsafe.Pointer(unsafe.SliceData(got))); len(got) > 0 && p%unsafe.Alignof(got[0]) != 0 {
				t.Fatalf("elements at %x are not aligned", p)
			}
		}
	})
}

func TestLayoutOfBytes(t *testing.T) {
	if got, want := Bytes([]float32{1, -2}), []byte{0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0}; !bytes.Equal(got, want) {
		t.Errorf("got %x, want %x", got, want)
	}
}

func TestViewIsTheSameMemory(t *testing.T) {
	x := []float32{0, 0}
	b, ok := View(x)
	if ok != littleEndian {
		t.Fatalf("ok is %v on a host with littleEndian=%v", ok, littleEndian)
	}
	if ok {
		copy(b, []byte{0, 0, 0x80, 0x3f})
		equalBits(t, "after writing through the view", x, []float32{1, 0})
	}
	if b, _ := View(nil); len(b) != 0 {
		t.Errorf("view of nothing has %d bytes", len(b))
	}
}
