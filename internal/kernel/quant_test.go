package kernel

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// quantiser is one of the formats, all alike.
type quantiser struct {
	name   string
	block  int
	size   func(n int) int
	encode func(dst []byte, src []float32)
	decode func(dst []float32, src []byte) int
	naive  func(src []float32) []byte
}

var quantisers = []quantiser{
	{
		"BF16", 1, BF16Size, EncodeBF16, func(dst []float32, src []byte) int { DecodeBF16(dst, src); return -1 },
		naiveBF16,
	},
	{
		"Int8", QuantBlock, Int8Size, EncodeInt8, DecodeInt8,
		func(src []float32) []byte { return naiveBlocks(src, QuantBlock, naiveInt8) },
	},
	{
		"Int4", QuantBlock, Int4Size, EncodeInt4, DecodeInt4,
		func(src []float32) []byte { return naiveBlocks(src, QuantBlock, naiveInt4) },
	},
	{
		"Sign", SignBlock, SignSize, EncodeSign, DecodeSign,
		func(src []float32) []byte { return naiveBlocks(src, SignBlock, naiveSign) },
	},
}

// The naive encoders are written from the formats' text, in float64 and with the library's
// rounding.

func naiveBF16(src []float32) (b []byte) {
	for _, v := range src {
		low := math.Float32bits(v) &^ 0xffff
		down, up := math.Float32frombits(low), math.Float32frombits(low+0x10000)
		below, above := math.Abs(float64(v)-float64(down)), math.Abs(float64(up)-float64(v))
		if above < below || above == below && low>>16&1 == 1 {
			low += 0x10000
		}
		b = binary.LittleEndian.AppendUint16(b, uint16(low>>16))
	}
	return b
}

func naiveBlocks(src []float32, size int, encode func(x []float32) (scale float32, rest []byte)) (b []byte) {
	for x := range slices.Chunk(src, size) {
		scale, rest := encode(x)
		b = append(binary.LittleEndian.AppendUint32(b, math.Float32bits(scale)), rest...)
	}
	return b
}

func naiveIntegers(x []float32, steps float32) (scale float32, q []int) {
	most := float32(0)
	for _, v := range x {
		most = max(most, float32(math.Abs(float64(v))))
	}
	q = make([]int, len(x))
	if most < 0x1p-100 {
		return 0, q
	}
	for j, v := range x {
		q[j] = int(math.RoundToEven(float64(float32(v * float32(steps/most)))))
	}
	return most / steps, q
}

func naiveInt8(x []float32) (scale float32, b []byte) {
	scale, q := naiveIntegers(x, 127)
	for _, v := range q {
		b = append(b, byte(int8(v)))
	}
	return scale, b
}

func naiveInt4(x []float32) (scale float32, b []byte) {
	scale, q := naiveIntegers(x, 7)
	for pair := range slices.Chunk(q, 2) {
		v := byte(pair[0] + 8)
		if len(pair) > 1 {
			v += byte(pair[1]+8) * 16
		}
		b = append(b, v)
	}
	return scale, b
}

func naiveSign(x []float32) (scale float32, b []byte) {
	var lanes [8]float64
	b = make([]byte, (len(x)+7)/8)
	for j, v := range x {
		lanes[j%8] += math.Abs(float64(v))
		if math.Signbit(float64(v)) {
			b[j/8] += 1 << (j % 8)
		}
	}
	sum := ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]))
	if scale = float32(sum / float64(len(x))); scale < 0x1p-100 {
		return 0, make([]byte, len(b))
	}
	return scale, b
}

// quantInput draws vectors whose blocks differ in magnitude, down to what comes out as zeros.
func quantInput(t *rapid.T, block int) []float32 {
	n := rapid.OneOf(rapid.IntRange(0, 40), rapid.IntRange(max(0, block-9), block+9),
		rapid.IntRange(2*block, 2*block+17)).Draw(t, "n")
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
	var x []float32
	for len(x) < n {
		high := rapid.SampledFrom([]float64{1, 1e-5, 1e30, 0x1p-99, 0x1p-101, 0, 1e-40}).Draw(t, "magnitude")
		for range min(n-len(x), max(block, 16)) {
			x = append(x, float32(high*r.NormFloat64()))
		}
	}
	for range rapid.IntRange(0, 3).Draw(t, "special") {
		if n > 0 {
			x[rapid.IntRange(0, n-1).Draw(t, "at")] = finite().Draw(t, "v")
		}
	}
	return x
}

func TestQuantisersAgainstNaive(t *testing.T) {
	for _, q := range quantisers {
		t.Run(q.name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				x := quantInput(t, q.block)
				enc := bytes.Repeat([]byte{0xa5}, q.size(len(x)))
				q.encode(enc, x)
				if want := q.naive(x); !bytes.Equal(enc, want) {
					t.Fatalf("got  %x\nwant %x", enc, want)
				}
				checkDecoded(t, q, x, enc)
			})
		})
	}
}

// checkDecoded holds what decodes against what was encoded: as near as the format promises, and a
// multiple of the scale.
func checkDecoded(t *rapid.T, q quantiser, x []float32, enc []byte) {
	dec := make([]float32, len(x))
	if at := q.decode(dec, enc); at >= 0 {
		t.Fatalf("an encoding was refused at %d", at)
	}
	for at := 0; at < len(x); at += q.block {
		b := x[at:min(at+q.block, len(x))]
		within := tiny
		switch most := float64(math.Float32frombits(absMaxBits(b))); q.name {
		case "BF16":
			within = max(0x1p-134, most*0x1p-8)
		case "Int8":
			within = max(tiny, most/127*0.50001)
		case "Int4":
			within = max(tiny, most/7*0.50001)
		case "Sign":
			// at least each is of the right sign, and the mean is kept
			within = max(SignBlock*tiny, most)
		}
		for j, v := range b {
			if d := dec[at+j]; math.Abs(float64(v)-float64(d)) > within || d != 0 &&
				math.Signbit(float64(d)) != math.Signbit(float64(v)) {
				t.Fatalf("element %d: %v came back as %v", at+j, v, d)
			}
		}
	}
	again := make([]byte, len(enc))
	if q.encode(again, dec); q.name == "BF16" && !bytes.Equal(again, enc) {
		t.Fatal("what was decoded encodes to other bytes")
	}
}

func TestSignKeepsTheMeanMagnitude(t *testing.T) {
	x := []float32{3, -1, 0, float32(math.Copysign(0, -1)), 4}
	enc := make([]byte, SignSize(len(x)))
	EncodeSign(enc, x)
	dec := make([]float32, len(x))
	if at := DecodeSign(dec, enc); at >= 0 {
		t.Fatal("refused")
	}
	equalBits(t, "decoded", dec, []float32{1.6, -1.6, 1.6, -1.6, 1.6})
}

// The formats, byte for byte.
func TestQuantisedBytes(t *testing.T) {
	x := []float32{1, -7, 3.5, 0, -0.5} // int4: 3.5 ties to 4, -0.5 to 0
	for name, want := range map[string]string{
		"BF16": "803fe0c060400000" + "00bf",
		"Int8": "87c3613d" + "12814000f7",
		"Int4": "0000803f" + "198c08",
		"Sign": "9a991940" + "12",
	} {
		q := quantisers[slices.IndexFunc(quantisers, func(q quantiser) bool { return q.name == name })]
		enc := make([]byte, q.size(len(x)))
		if q.encode(enc, x); fmt.Sprintf("%x", enc) != want {
			t.Errorf("%s: got %x, want %s", name, enc, want)
		}
	}
}

func TestNoNumberIsEncodedAsOne(t *testing.T) {
	for _, q := range quantisers[1:] {
		for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(-1)), math.Float32frombits(0xff800001)} {
			x := make([]float32, 2*q.block+3)
			x[q.block+1] = bad
			enc := make([]byte, q.size(len(x)))
			q.encode(enc, x)
			if at := q.decode(x, enc); at != q.block {
				t.Errorf("%s of %v: decoded up to %d, want it refused at %d", q.name, bad, at, q.block)
			}
		}
	}
	enc := make([]byte, 2)
	EncodeBF16(enc, []float32{math.Float32frombits(0x7fffffff)})
	if got := make([]float32, 1); true {
		if DecodeBF16(got, enc); !math.IsNaN(float64(got[0])) {
			t.Errorf("NaN came back as %v", got[0])
		}
	}
}

func TestDecodersRefuse(t *testing.T) {
	le := func(v uint32, rest ...byte) []byte { return append(binary.LittleEndian.AppendUint32(nil, v), rest...) }
	const one, nan, inf, minus, small = 0x3f800000, 0x7fc00000, 0x7f800000, 0xbf800000, minScaleBits - 1
	for _, c := range []struct {
		q    string
		n    int
		enc  []byte
		good bool
	}{
		{"Int8", 2, le(one, 127, 3), true},
		{"Int8", 2, le(one, 129, 3), true},
		{"Int8", 2, le(0, 0, 0), true},
		{"Int8", 2, le(minScaleBits, 127, 0), true},
		{"Int8", 2, le(nan, 127, 3), false},
		{"Int8", 2, le(inf, 127, 3), false},
		{"Int8", 2, le(minus, 127, 3), false},
		{"Int8", 2, le(small, 127, 3), false},
		{"Int8", 2, le(1<<31, 0, 0), false},
		{"Int8", 2, le(one, 126, 3), false},
		{"Int8", 2, le(one, 128, 127), false},
		{"Int8", 2, le(0, 0, 1), false},
		{"Int8", 2, le(one, 0, 0), false},
		{"Int4", 3, le(one, 0xf8, 0x08), true},
		{"Int4", 3, le(one, 0x18, 0x08), true},
		{"Int4", 3, le(0, 0x88, 0x08), true},
		{"Int4", 3, le(one, 0xf8, 0x18), false},
		{"Int4", 3, le(one, 0xe8, 0x08), false},
		{"Int4", 3, le(one, 0x0f, 0x08), false},
		{"Int4", 3, le(0, 0x98, 0x08), false},
		{"Int4", 3, le(nan, 0xf8, 0x08), false},
		{"Int4", 1, le(one, 0x0f), true},
		{"Sign", 9, le(one, 0xff, 1), true},
		{"Sign", 9, le(one, 0xff, 2), false},
		{"Sign", 9, le(0, 0, 0), true},
		{"Sign", 9, le(0, 0, 1), false},
		{"Sign", 9, le(nan, 0, 1), false},
		{"Sign", 9, le(tinyBits-1, 0, 1), false},
		{"Sign", 8, le(tinyBits, 0xff), true},
	} {
		q := quantisers[slices.IndexFunc(quantisers, func(q quantiser) bool { return q.name == c.q })]
		if got := q.decode(make([]float32, c.n), c.enc) < 0; got != c.good {
			t.Errorf("%s of %d elements, %x: taken %v, want %v", c.q, c.n, c.enc, got, c.good)
		}
	}
}

// FuzzQuantised gives decoders foreign bytes. What they take is finite up to an overflow of a large
// scale, and no block decodes to the same as the one that its values are encoded to, unless that is
// itself.
func FuzzQuantised(f *testing.F) {
	for i, q := range quantisers {
		x := make([]float32, q.block+3)
		for j := range x {
			x[j] = float32(j%15) - 7
		}
		enc := make([]byte, q.size(len(x)))
		q.encode(enc, x)
		f.Add(uint8(i), uint16(len(x)), enc)
		f.Add(uint8(i), uint16(q.block), make([]byte, q.size(q.block)))
	}
	f.Fuzz(func(t *testing.T, which uint8, n uint16, enc []byte) {
		q := quantisers[int(which)%len(quantisers)]
		if len(enc) != q.size(int(n)) {
			return
		}
		x := make([]float32, n)
		if q.decode(x, enc) >= 0 || q.name == "BF16" {
			return
		}
		for j, v := range x {
			if b := math.Float32bits(v) &^ signBit; b > exponentBits || b != 0 && b < minScaleBits {
				t.Fatalf("element %d decoded to %v", j, v)
			}
		}
		if Bounded(x) >= 0 {
			return
		}
		// The scale may round otherwise; the integers come back.
		again := make([]byte, len(enc))
		q.encode(again, x)
		bytesOf := map[string]func(int) int{"Int8": int8Bytes, "Int4": int4Bytes, "Sign": signBytes}[q.name]
		for rest := int(n); rest > 0; rest -= q.block {
			size := bytesOf(min(rest, q.block))
			if !bytes.Equal(again[scaleSize:size], enc[scaleSize:size]) {
				t.Fatalf("integers %x came back as %x", enc[scaleSize:size], again[scaleSize:size])
			}
			again, enc = again[size:], enc[size:]
		}
	})
}

func TestAdd(t *testing.T) {
	a, b := []float32{1, -2, 3}, []float32{0.5, 2, 1e9}
	Add(a, a, b)
	equalBits(t, "Add", a, []float32{1.5, 0, 1e9})
}
