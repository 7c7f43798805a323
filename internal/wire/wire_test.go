package wire

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"testing"
)

// The layouts of docs/spec, by hand.
func TestGoldenLayouts(t *testing.T) {
	b := AppendU64(AppendU32(AppendU16(AppendU8(nil, 1), 2), 3), 4)
	b = AppendBytes(AppendBool(AppendBool(b, true), false), "hi")
	want := "01" + "0002" + "00000003" + "0000000000000004" + "01" + "00" + "00000002" + "6869"
	if got := hex.EncodeToString(b); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	r := NewReader(b)
	if r.U8() != 1 || r.U16() != 2 || r.U32() != 3 || r.U64() != 4 || !r.Bool() || r.Bool() ||
		string(r.Bytes(2)) != "hi" {
		t.Error("other values were read")
	}
	if err := r.Done(); err != nil {
		t.Error(err)
	}
}

func TestReaderRefuses(t *testing.T) {
	for name, read := range map[string]func(*Reader){
		"trailing bytes":            func(r *Reader) { r.U8() },
		"the end":                   func(r *Reader) { r.U64(); r.U8() },
		"negative":                  func(r *Reader) { r.Take(-1) },
		"no truth value":            func(r *Reader) { r.Take(3); r.Bool(); r.Take(4) },
		"more than the cap":         func(r *Reader) { r.Bytes(4) },
		"count above the limit":     func(r *Reader) { r.Take(r.Count(4, 0)); r.Take(4) },
		"count beyond what is left": func(r *Reader) { r.Count(math.MaxInt, 2); r.Take(4) },
		"the caller's own fault":    func(r *Reader) { r.Take(8); r.Fail("%d is odd", 5) },
	} {
		r := NewReader([]byte{0, 0, 0, 5, 1, 2, 3, 4})
		read(r)
		if err := r.Done(); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestFirstFaultSticks(t *testing.T) {
	r := NewReader([]byte{9, 9, 9})
	r.Bool()
	first := r.Err()
	if r.U16() != 0 || r.Take(1) != nil || r.Bytes(9) != nil || r.Count(9, 1) != 0 {
		t.Error("values were read after a fault")
	}
	if r.Fail("another"); r.Done() != first {
		t.Errorf("%v came after %v", r.Err(), first)
	}
}

func TestMessages(t *testing.T) {
	var b bytes.Buffer
	for _, m := range []string{"one", "", "three"} {
		if err := WriteMessage(&b, []byte(m)); err != nil {
			t.Fatal(err)
		}
	}
	raw := bytes.Clone(b.Bytes())
	for _, want := range []string{"one", "", "three"} {
		if m, err := ReadMessage(&b, 5); err != nil || string(m) != want {
			t.Errorf("got %q, %v, want %q", m, err, want)
		}
	}
	if _, err := ReadMessage(&b, 5); !errors.Is(err, io.EOF) {
		t.Errorf("between messages: %v", err)
	}
	for _, n := range []int{2, 4, 6} {
		if _, err := ReadMessage(bytes.NewReader(raw[:n]), 5); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%d bytes of a message: %v", n, err)
		}
	}
	if _, err := ReadMessage(bytes.NewReader(raw), 2); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a message of 3 bytes where 2 are allowed: %v", err)
	}
}

func FuzzReadMessage(f *testing.F) {
	var b bytes.Buffer
	_ = WriteMessage(&b, []byte("hello"))
	f.Add(b.Bytes())
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := ReadMessage(bytes.NewReader(b), 64)
		if err != nil {
			return
		}
		var again bytes.Buffer
		if err := WriteMessage(&again, m); err != nil || !bytes.HasPrefix(b, again.Bytes()) {
			t.Errorf("%x was read from %x", m, b)
		}
	})
}

// wornOut is a transport's own kind of timeout.
type wornOut struct{ late bool }

func (wornOut) Error() string   { return "worn out" }
func (e wornOut) Timeout() bool { return e.late }

func TestTimedOut(t *testing.T) {
	for _, err := range []error{os.ErrDeadlineExceeded, context.DeadlineExceeded, wornOut{late: true}} {
		if !TimedOut(err) || !TimedOut(fmt.Errorf("writing: %w", err)) {
			t.Errorf("%v is no timeout", err)
		}
	}
	for _, err := range []error{nil, io.EOF, net.ErrClosed, wornOut{}} {
		if TimedOut(err) {
			t.Errorf("%v is a timeout", err)
		}
	}
}
