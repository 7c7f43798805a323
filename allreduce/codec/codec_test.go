package codec

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// sparse is topk with some parameters.
func sparse(t testing.TB, k, bits int) Codec {
	t.Helper()
	c, err := New(FormatTopK(k, bits))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// all are the codecs of the table, and topk.
func all(t testing.TB) (cs []Codec) {
	t.Helper()
	for _, name := range Names() {
		c, err := New(name)
		if err != nil || c.Name != name {
			t.Fatalf("%s: got %v, %v", name, c, err)
		}
		cs = append(cs, c)
	}
	return append(cs, sparse(t, 1024, 4))
}

// What every codec promises, whatever it loses.
func TestContract(t *testing.T) {
	for _, c := range all(t) {
		t.Run(c.Name, func(t *testing.T) { rapid.Check(t, func(t *rapid.T) { checkContract(t, c) }) })
	}
	if _, err := New("f31"); err == nil || !strings.Contains(err.Error(), `"f31"`) ||
		!strings.Contains(err.Error(), F32) {
		t.Errorf("got %v, want an error with the name and the allowed ones", err)
	}
	if enc := codecs[F32].Append(nil, []float32{1}); !bytes.Equal(enc, []byte{0, 0, 0x80, 0x3f}) {
		t.Errorf("1 is encoded as %x", enc)
	}
}

func checkContract(t *rapid.T, c Codec) {
	src := rapid.SliceOfN(rapid.Float32(), 0, 3*c.Block+20).Draw(t, "src")
	if !c.Lossy() { // NaN and Inf, too
		src = append(src, math.Float32frombits(rapid.Uint32().Draw(t, "bits")))
	}
	enc := c.Append([]byte("head"), src)
	if !bytes.HasPrefix(enc, []byte("head")) {
		t.Fatal("Append changed what was there")
	}
	enc = enc[len("head"):]
	if len(enc) != c.EncodedSize(len(src)) {
		t.Fatalf("%d bytes, EncodedSize says %d", len(enc), c.EncodedSize(len(src)))
	}
	dst := make([]float32, len(src))
	if err := c.Decode(dst, enc); err != nil {
		t.Fatal(err)
	}
	for i, v := range dst {
		if !c.Lossy() && math.Float32bits(v) != math.Float32bits(src[i]) {
			t.Fatalf("%08x came back as %08x", math.Float32bits(src[i]), math.Float32bits(v))
		}
	}
	cut := rapid.IntRange(0, len(src)/c.Block).Draw(t, "cut") * c.Block
	if parts := c.Append(c.Append(nil, src[:cut]), src[cut:]); !bytes.Equal(parts, enc) {
		t.Fatalf("encoding in two parts, cut at %d, gives other bytes", cut)
	}
	for _, wrong := range [][]byte{append(slices.Clone(enc), 0), enc[:max(0, len(enc)-1)]} {
		if err := c.Decode(dst, wrong); len(wrong) != len(enc) && !errors.Is(err, wire.ErrMalformed) {
			t.Fatalf("%d bytes for %d: got %v", len(wrong), len(enc), err)
		}
	}
}

// What a peer pays, exactly. docs/spec/reduction.md says the same.
func TestEncodedSize(t *testing.T) {
	want := map[string][5]int{ // bytes of 0, 1, 1023, 1024 and 1 Mi elements
		F32:  {0, 4, 4092, 4096, 4 << 20},
		BF16: {0, 2, 2046, 2048, 2 << 20},
		Int8: {0, 5, 1039, 1040, 1<<20 + 4<<12},
		Int4: {0, 5, 528, 528, 1<<19 + 4<<12},
		Sign: {0, 5, 132, 132, 1<<17 + 4<<10},
		TopK: {0, 2, 21, 21, 81 << 8},
	}
	for _, c := range all(t)[:len(want)] {
		for i, n := range []int{0, 1, 1023, 1024, 1 << 20} {
			if got := c.EncodedSize(n); got != want[c.Name][i] {
				t.Errorf("%s of %d elements takes %d bytes, want %d", c.Name, n, got, want[c.Name][i])
			}
		}
	}
}

// A lossy codec's values are near, and its bytes those of the kernels.
func TestLossy(t *testing.T) {
	src := make([]float32, 3000)
	for i := range src {
		src[i] = float32(i%201)/100 - 1
	}
	for _, c := range all(t) {
		name, dst := c.Name, make([]float32, len(src))
		if err := c.Decode(dst, c.Append(nil, src)); err != nil {
			t.Fatal(err)
		}
		within := map[string]float64{F32: 0, BF16: 0.004, Int8: 0.004, Int4: 0.0715, Sign: 0.52, TopK: 1}[name]
		if strings.HasPrefix(name, TopK) {
			within = 1
		}
		for i := range src {
			if d := math.Abs(float64(src[i]) - float64(dst[i])); d > within {
				t.Fatalf("%s: %v came back as %v", name, src[i], dst[i])
			}
		}
		if c.Lossy() != (name != F32) {
			t.Errorf("%s: lossy %v", name, c.Lossy())
		}
	}
}

func TestDecodeRefusesWhatNoEncoderWrites(t *testing.T) {
	for _, c := range all(t)[2:] { // bf16 and f32 take all
		n := 2*c.Block + 1
		enc := c.Append(nil, slices.Repeat([]float32{1}, n))
		second := enc[c.EncodedSize(c.Block):]
		copy(second, []byte{0, 0, 0xc0, 0x7f}) // its scale
		if c.Name == TopK {
			clear(second[:c.EncodedSize(c.Block)/2]) // its positions
		}
		err := c.Decode(make([]float32, n), enc)
		if !errors.Is(err, wire.ErrMalformed) || !strings.Contains(err.Error(), fmt.Sprint(c.Block)) {
			t.Errorf("%s: got %v, want an error that names element %d", c.Name, err, c.Block)
		}
	}
}

// The parameters of topk have limits, and one spelling.
func TestParametersOfTopK(t *testing.T) {
	for _, bad := range []string{
		"topk:", "topk:64", "topk:0:2", "topk:1025:2", "topk:64:3", "topk:64:0", "topk:064:2", "topk:64:2:1",
		"topk:-1:2",
	} {
		if _, err := New(bad); err == nil || !strings.Contains(err.Error(), "K from 1 to 1024") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	plain, err := New(TopK)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := plain.EncodedSize(4096), sparse(t, 64, 2).EncodedSize(4096); a != b || a != 81 {
		t.Errorf("topk takes %d bytes for a block, topk:64:2 %d", a, b)
	}
}

func TestCodecsOfOutcomes(t *testing.T) {
	for _, c := range [][3]string{
		{F32, "", F32},
		{Int4, "", Int4},
		{Sign, "", Int4},
		{Sign, Int8, Int8},
		{TopK, "topk:256:4", "topk:256:4"},
		{F32, Sign, ""},
		{Sign, Sign, ""},
		{"f31", "", ""},
		{F32, "f31", ""},
	} {
		got, err := NewOutcome(c[0], c[1])
		if c[2] == "" {
			if err == nil {
				t.Errorf("%v: no error", c)
			}
		} else if err != nil || got.Name != c[2] {
			t.Errorf("%v: %v, %v", c, got, err)
		}
	}
}

// What was not sent fades with topk alone.
func TestFeedback(t *testing.T) {
	for _, c := range all(t) {
		want := map[bool]float32{true: 0.95, false: 1}[strings.HasPrefix(c.Name, TopK)]
		if got := c.Feedback; got != want {
			t.Errorf("%s: %v", c.Name, got)
		}
	}
}

// FuzzDecode gives every codec foreign bytes: it must refuse them or give values that encode to as
// many bytes again.
func FuzzDecode(f *testing.F) {
	cs := all(f)
	for i, c := range cs {
		for _, n := range []int{0, 1, c.Block + 1} {
			f.Add(uint8(i), uint16(n), c.Append(nil, slices.Repeat([]float32{-1.5}, n)))
		}
		f.Add(uint8(i), uint16(2), []byte("short"))
	}
	f.Fuzz(func(t *testing.T, which uint8, elements uint16, b []byte) {
		c := cs[int(which)%len(cs)]
		dst := make([]float32, elements)
		err := c.Decode(dst, b)
		if len(b) != c.EncodedSize(len(dst)) && err == nil {
			t.Fatalf("%d bytes taken for %d elements", len(b), elements)
		}
		if err != nil && !errors.Is(err, wire.ErrMalformed) {
			t.Fatalf("error %v does not wrap wire.ErrMalformed", err)
		}
		if err == nil && len(c.Append(nil, dst)) != len(b) {
			t.Fatal("decoded values encode to another number of bytes")
		}
	})
}

func BenchmarkCodecs(b *testing.B) {
	const n = 1 << 20
	src := make([]float32, n)
	for i := range src {
		src[i] = float32(i%1000) - 500
	}
	for _, c := range all(b) {
		name, enc := c.Name, c.Append(nil, src)
		b.Run(name+"/Append", func(b *testing.B) {
			b.SetBytes(int64(4*n + len(enc)))
			for b.Loop() {
				enc = c.Append(enc[:0], src)
			}
		})
		b.Run(name+"/Decode", func(b *testing.B) {
			b.SetBytes(int64(4*n + len(enc)))
			for b.Loop() {
				if err := c.Decode(src, enc); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
