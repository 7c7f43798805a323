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
func sparse(t testing.TB, k, bits int) Sparse {
	t.Helper()
	c, err := NewTopK(k, bits)
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
		if err != nil || c.Name() != name {
			t.Fatalf("%s: got %v, %v", name, c, err)
		}
		cs = append(cs, c)
	}
	return append(cs, sparse(t, 64, 2), sparse(t, 1024, 4))
}

// What every codec promises, whatever it loses.
func TestContract(t *testing.T) {
	for _, c := range all(t) {
		t.Run(c.Name(), func(t *testing.T) { rapid.Check(t, func(t *rapid.T) { checkContract(t, c) }) })
	}
	if _, err := New("f31"); err == nil || !strings.Contains(err.Error(), `"f31"`) ||
		!strings.Contains(err.Error(), F32) {
		t.Errorf("got %v, want an error with the name and the allowed ones", err)
	}
	if enc := (f32{}).Append(nil, []float32{1}); !bytes.Equal(enc, []byte{0, 0, 0x80, 0x3f}) {
		t.Errorf("1 is encoded as %x", enc)
	}
}

func checkContract(t *rapid.T, c Codec) {
	src := rapid.SliceOfN(rapid.Float32(), 0, 3*c.Block()+20).Draw(t, "src")
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
	cut := rapid.IntRange(0, len(src)/c.Block()).Draw(t, "cut") * c.Block()
	if parts := c.Append(c.Append(nil, src[:cut]), src[cut:]); !bytes.Equal(parts, enc) {
		t.Fatalf("encoding in two parts, cut at %d, gives other bytes", cut)
	}
	for _, wrong := range [][]byte{append(slices.Clone(enc), 0), enc[:max(0, len(enc)-1)]} {
		if err := c.Decode(dst, wrong); len(wrong) != len(enc) && !errors.Is(err, wire.ErrMalformed) {
			t.Fatalf("%d bytes for %d: got %v", len(wrong), len(enc), err)
		}
	}
}

// What a peer pays, exactly. docs/protocol.md says the same.
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
			if got := c.EncodedSize(n); got != want[c.Name()][i] {
				t.Errorf("%s of %d elements takes %d bytes, want %d", c.Name(), n, got, want[c.Name()][i])
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
		name, dst := c.Name(), make([]float32, len(src))
		if err := c.Decode(dst, c.Append(nil, src)); err != nil {
			t.Fatal(err)
		}
		within := map[string]float64{F32: 0, BF16: 0.004, Int8: 0.004, Int4: 0.0715, Sign: 0.52, TopK: 1}[name]
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
		n := 2*c.Block() + 1
		enc := c.Append(nil, slices.Repeat([]float32{1}, n))
		second := enc[c.EncodedSize(c.Block()):]
		copy(second, []byte{0, 0, 0xc0, 0x7f}) // its scale
		if c.Name() == TopK {
			clear(second[:c.EncodedSize(c.Block())/2]) // its positions
		}
		err := c.Decode(make([]float32, n), enc)
		if !errors.Is(err, wire.ErrMalformed) || !strings.Contains(err.Error(), fmt.Sprint(c.Block())) {
			t.Errorf("%s: got %v, want an error that names element %d", c.Name(), err, c.Block())
		}
	}
}

// What a sparse codec adds to Codec agrees with what it decodes, and takes no other bytes.
func TestSparse(t *testing.T) {
	c := sparse(t, 3, 2)
	src := make([]float32, c.Block()+5)
	src[7], src[8], src[9], src[c.Block()+4] = 2, -2, 2, 1
	enc, dec, sum := c.Append(nil, src), make([]float32, len(src)), slices.Repeat([]float32{1}, len(src))
	var at []int
	each := func(begin int, positions []uint16, values []float32) {
		for i, p := range positions {
			at = append(at, begin+int(p))
			dec[at[len(at)-1]] -= values[i]
		}
	}
	norm, err := c.NormSq(len(src), enc)
	if err := errors.Join(err, c.Decode(dec, enc), c.Add(sum, enc, 0.5)); err != nil {
		t.Fatal(err)
	}
	want := 3*float64(dec[7])*float64(dec[7]) + float64(dec[c.Block()+4])*float64(dec[c.Block()+4])
	if norm != want || sum[7] != 1+dec[7]/2 || sum[8] != 1-dec[7]/2 || sum[10] != 1 {
		t.Errorf("squared norm %v, want %v; sums %v for %v", norm, want, sum[6:11], dec[6:11])
	}
	if err := c.Each(len(src), enc, each); err != nil || !slices.Equal(at, []int{7, 8, 9, c.Block() + 4}) {
		t.Errorf("sent are %v, %v", at, err)
	}
	if slices.ContainsFunc(dec, func(v float32) bool { return v != 0 }) {
		t.Error("Each gives other values than Decode")
	}
	clear(enc[c.EncodedSize(c.Block()):]) // a block of zeros is one
	enc[len(enc)-1] = 0xff
	for _, b := range [][]byte{enc, enc[1:]} {
		_, err := c.NormSq(len(src), b)
		for _, err := range []error{err, c.Add(sum, b, 1), c.Each(len(src), b, each)} {
			if !errors.Is(err, wire.ErrMalformed) {
				t.Errorf("%d bytes: got %v", len(b), err)
			}
		}
	}
}

// The parameters of topk have limits, and no run can name it before contributions can be gathered.
func TestTopKIsNoRunsCodec(t *testing.T) {
	for _, p := range [][2]int{{0, 2}, {1025, 2}, {64, 3}, {64, 0}} {
		if _, err := NewTopK(p[0], p[1]); err == nil {
			t.Errorf("%d values at %d bits are taken", p[0], p[1])
		}
	}
	if _, err := New(TopK); err == nil {
		t.Error("a run can name topk")
	}
}

// What was not sent fades with topk alone.
func TestFeedback(t *testing.T) {
	for _, c := range all(t) {
		if got, want := c.Feedback(), map[bool]float32{true: 0.95, false: 1}[c.Name() == TopK]; got != want {
			t.Errorf("%s: %v", c.Name(), got)
		}
	}
}

// FuzzDecode gives every codec foreign bytes: it must refuse them or give values that encode to as
// many bytes again.
func FuzzDecode(f *testing.F) {
	cs := all(f)
	for i, c := range cs {
		for _, n := range []int{0, 1, c.Block() + 1} {
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
		name, enc := c.Name(), c.Append(nil, src)
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
		few, ok := c.(Sparse)
		if !ok {
			continue
		}
		b.Run(name+"/Add", func(b *testing.B) {
			b.SetBytes(int64(len(enc)))
			for b.Loop() {
				if err := few.Add(src, enc, 0.25); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
