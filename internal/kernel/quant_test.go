package kernel

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
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
		"Int8", QuantBlock, Int8.Size, Int8.Encode, Int8.Decode,
		func(src []float32) []byte { return naiveBlocks(src, QuantBlock, naiveInt8) },
	},
	{
		"Int4", QuantBlock, Int4.Size, Int4.Encode, Int4.Decode,
		func(src []float32) []byte { return naiveBlocks(src, QuantBlock, naiveInt4) },
	},
	{
		"Sign", SignBlock, Sign.Size, Sign.Encode, Sign.Decode,
		func(src []float32) []byte { return naiveBlocks(src, SignBlock, naiveSign) },
	},
	sparse(TopK{K: 64, Bits: 2}),
	sparse(TopK{K: 1, Bits: 4}),
	sparse(TopK{K: 1000, Bits: 2}),
	sparse(TopK{K: MaxTopK, Bits: 4}),
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

// magnitudes are those of blocks, down to what comes out as zeros.
var magnitudes = []float32{1, 1, 1, 1e-5, 1e18, 0x1p-99, 0x1p-101, 0, 1e-40}

// Quantisers read and write the bytes of the naive ones, with fast paths and without, at every
// length and alignment, and write nowhere else; foreign bytes are refused at the same place.
func TestQuantisers(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, q := range quantisers {
		t.Run(q.name, func(t *testing.T) {
			for n := range 400 {
				if n > 140 {
					n = r.IntN(max(2300, 3*q.block))
				}
				compareQuantiser(t, r, q, n)
			}
		})
	}
}

func compareQuantiser(t *testing.T, r *rand.Rand, q quantiser, n int) {
	t.Helper()
	in := newInput(r, 1, n)
	for x := range slices.Chunk(in.x[0], max(q.block, 16)) {
		m := magnitudes[r.IntN(len(magnitudes))]
		for j := range x {
			x[j] *= m
		}
	}
	begin, size := 32+r.IntN(32), q.size(n)
	encode := func(fast bool) []byte {
		defer SetFast(SetFast(fast))
		b := bytes.Repeat([]byte{0xa5}, begin+size+32)
		q.encode(b[begin:][:size], in.x[0])
		return b
	}
	fast, plain := encode(true), encode(false)
	if !bytes.Equal(fast, plain) {
		t.Fatalf("%d elements: encoded to\n%x, plain\n%x", n, fast, plain)
	}
	enc := plain[begin:][:size]
	if Bounded(in.x[0]) < 0 {
		if want := q.naive(in.x[0]); !bytes.Equal(enc, want) {
			t.Fatalf("got  %x\nwant %x", enc, want)
		}
		checkDecoded(t, q, in.x[0], enc)
	}
	if size > 0 && r.IntN(3) == 0 {
		enc[r.IntN(size)] ^= byte(1 + r.IntN(255))
	}
	compareDecoders(t, r, q, n, enc)
	for i := range enc {
		enc[i] = byte(r.Uint32())
	}
	compareDecoders(t, r, q, n, enc)
}

func compareDecoders(t *testing.T, r *rand.Rand, q quantiser, n int, enc []byte) {
	t.Helper()
	at := 16 + r.IntN(16)
	decode := func(fast bool) (x []float32, bad int) {
		defer SetFast(SetFast(fast))
		x = make([]float32, at+n+16)
		return x, q.decode(x[at:][:n], enc)
	}
	fast, badFast := decode(true)
	plain, bad := decode(false)
	if badFast != bad || !slices.EqualFunc(fast, plain, sameBits) {
		t.Fatalf("%d elements: refused at %d, plain at %d, or %v and %v", n, badFast, bad, fast, plain)
	}
}

// checkDecoded holds what decodes against what was encoded: as near as the format promises, or at
// least each of the right sign.
func checkDecoded(t *testing.T, q quantiser, x []float32, enc []byte) {
	t.Helper()
	dec := make([]float32, len(x))
	if at := q.decode(dec, enc); at >= 0 {
		t.Fatalf("an encoding was refused at %d", at)
	}
	for at := 0; at < len(x); at += q.block {
		b := x[at:min(at+q.block, len(x))]
		most := float64(math.Float32frombits(absMaxBits(b)))
		within := map[string]float64{
			"BF16": max(0x1p-134, most*0x1p-8), "Int8": max(tiny, most/127*0.50001), "Int4": max(tiny, most/7*0.50001),
			"Sign": max(SignBlock*tiny, most),
		}[q.name]
		if q.block == TopKBlock {
			within = max(tiny, most)
		}
		for j, v := range b {
			if d := dec[at+j]; math.Abs(float64(v)-float64(d)) > within || d != 0 &&
				math.Signbit(float64(d)) != math.Signbit(float64(v)) {
				t.Fatalf("element %d: %v came back as %v", at+j, v, d)
			}
		}
	}
}

// A quantiser's integers are of magnitude up to steps: of no other may the fast path lose count.
func TestFastDecodersCountEveryInteger(t *testing.T) {
	defer SetFast(SetFast(true))
	for at := range 64 {
		for v := range 256 {
			q := make([]byte, 64)
			q[at] = byte(v)
			i := strided(len(q), quantStride)
			most := int32(fromInt8AVX2(make([]float32, i), q, 1))
			for _, b := range q[i:] {
				most = max(most, int32(int8(b)), -int32(int8(b)))
			}
			if want := max(int32(int8(v)), -int32(int8(v))); most != want {
				t.Fatal(at, v, most, want)
			}
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
	enc, got := make([]byte, 2), make([]float32, 1)
	EncodeBF16(enc, []float32{math.Float32frombits(0x7fffffff)})
	if DecodeBF16(got, enc); !math.IsNaN(float64(got[0])) {
		t.Errorf("NaN came back as %v", got[0])
	}
}

// What no encoder writes is refused: no scale, one too small, integers out of range or none of the
// greatest magnitude, zeros with a scale or the other way around, bits behind the last element.
func TestDecodersRefuse(t *testing.T) {
	for _, c := range []struct {
		q         quantiser
		n         int
		good, bad []string
	}{
		{
			quantisers[1], 2,
			[]string{"0000803f7f03", "0000803f8103", "000000000000", "0000000a7f00"},
			[]string{
				"0000c07f7f03", "0000807f7f03", "000080bf7f03", "ffffff097f03", "000000800000", "0000803f7e03",
				"0000803f807f", "000000000001", "0000803f0000",
			},
		},
		{
			quantisers[2], 3,
			[]string{"0000803ff808", "0000803f1808", "000000008808"},
			[]string{"0000803ff818", "0000803fe808", "0000803f0f08", "000000009808", "0000c07ff808"},
		},
		{quantisers[2], 1, []string{"0000803f0f"}, nil},
		{
			quantisers[3], 9,
			[]string{"0000803fff01", "000000000000"},
			[]string{"0000803fff02", "000000000001", "0000c07f0001", "ffff7f0d0001"},
		},
		{quantisers[3], 8, []string{"0000800dff"}, nil},
	} {
		for i, s := range slices.Concat(c.good, c.bad) {
			enc, err := hex.DecodeString(s)
			if got := c.q.decode(make([]float32, c.n), enc) < 0; err != nil || got != (i < len(c.good)) {
				t.Errorf("%s of %d elements, %s: taken %v", c.q.name, c.n, s, got)
			}
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
		if q.block == TopKBlock {
			return // FuzzTopK
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
