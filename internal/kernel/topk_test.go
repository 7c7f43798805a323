package kernel

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// sparse is a topk format as a quantiser.
func sparse(k TopK) quantiser {
	return quantiser{
		fmt.Sprintf("TopK%dx%d", k.K, k.Bits), TopKBlock, k.Size, k.Encode,
		func(dst []float32, src []byte) int { bad, _ := k.Decode(dst, src); return bad },
		func(src []float32) []byte { return naiveTopK(k, src) },
	}
}

// naiveTopK is the encoder from the format's text.
func naiveTopK(k TopK, src []float32) (b []byte) {
	for x := range slices.Chunk(src, TopKBlock) {
		scale, at, codes := naiveTopKBlock(k, x)
		b = append(b, packTopK(k, len(x), scale, at, codes)...)
	}
	return b
}

func naiveTopKBlock(k TopK, x []float32) (scale int, at, codes []int) {
	size := func(i int) float64 { return math.Abs(float64(x[i])) }
	for i := range x {
		at = append(at, i)
	}
	slices.SortStableFunc(at, func(i, j int) int { return cmp.Compare(size(j), size(i)) })
	if size(at[0]) < 0x1p-100 {
		return 0, nil, nil
	}
	at = at[:int(math.Ceil(float64(len(x)*k.K)/TopKBlock))]
	slices.Sort(at)
	var squares, sum float64
	for _, i := range at {
		squares += float64(size(i) * size(i))
		sum += size(i)
	}
	want := float64(float32(squares / sum))
	value := func(scale int) float64 { return float64(math.Float32frombits(uint32(scale) << 22)) }
	for s := range 2 * 255 {
		if math.Abs(value(s)-want) <= math.Abs(value(scale)-want) {
			scale = s
		}
	}
	at = slices.DeleteFunc(at, func(i int) bool {
		nearest, code := 0.0, 0
		for c, level := range k.levels() {
			if v := float64(level) * value(scale); math.Abs(size(i)-v) <= math.Abs(size(i)-nearest) {
				nearest, code = v, 2*c
			}
		}
		if math.Signbit(float64(x[i])) {
			code++
		}
		if nearest != 0 {
			codes = append(codes, code)
		}
		return nearest == 0
	})
	return scale, at, codes
}

// packTopK writes a block's bits, one after the other.
func packTopK(k TopK, n, scale int, at, codes []int) []byte {
	most := int(math.Ceil(float64(n*k.K) / TopKBlock))
	low := int(math.Floor(math.Log2(float64(n / most))))
	var all []int
	put := func(v, width int) {
		for i := range width {
			all = append(all, v>>i&1)
		}
	}
	for i := range most {
		if i < len(at) {
			put(codes[i], k.Bits)
			put(at[i]%(1<<low), low)
		} else {
			put(0, k.Bits+low)
		}
	}
	put(scale, 9)
	high := make([]int, most+(n-1)>>low)
	for i, p := range at {
		high[p>>low+i] = 1
	}
	all = append(all, high...)
	b := make([]byte, (len(all)+7)/8)
	for i, bit := range all {
		b[i/8] += byte(bit << (i % 8))
	}
	return b
}

// What a block takes: 81 bytes for 64 of 4096 values with 2 bits each. A tail takes no more than a
// longer one.
func TestTopKSize(t *testing.T) {
	for _, c := range []struct{ k, bits, n, want int }{
		{64, 2, 4096, 81},
		{128, 2, 4096, 145},
		{64, 4, 4096, 97},
		{1024, 4, 4096, 1025},
		{1, 2, 4096, 3},
		{64, 2, 0, 0},
		{64, 2, 1, 2},
		{64, 2, 3 * 4096, 243},
		{64, 2, 4097, 83},
	} {
		if got := (TopK{c.k, c.bits}).Size(c.n); got != c.want {
			t.Errorf("%+v takes %d bytes", c, got)
		}
	}
	for k := 1; k <= MaxTopK; k += 1 + k/9 {
		for n := range TopKBlock + 1 {
			if f := (TopK{k, 2}); f.Size(n) > f.Size(n+1) {
				t.Fatalf("k %d: %d elements take %d bytes, one more %d", k, n, f.Size(n), f.Size(n+1))
			}
		}
	}
}

// Which values are sent: those of largest magnitude, of equal ones the first, and none that is 0 or
// too small beside the others.
func TestTopKChoice(t *testing.T) {
	sent := func(k int, x []float32) (all []int) {
		f := TopK{k, 2}
		enc := make([]byte, f.Size(len(x)))
		f.Encode(enc, x)
		y := make([]float32, len(x))
		if bad, why := f.Decode(y, enc); bad >= 0 {
			t.Errorf("refused: %s", why)
		}
		for j, v := range x {
			if y[j] == 0 {
				continue
			}
			all = append(all, j)
			if math.Abs(float64(v-y[j])) > 0.34*math.Abs(float64(v)) {
				t.Errorf("%v came back as %v", v, y[j])
			}
		}
		return all
	}
	x := make([]float32, TopKBlock+2048)
	for _, j := range []int{5, 90, 4000, 4095} {
		x[j] = -1
	}
	x[4096], x[5000] = 0x1p-90, -0x1p-90
	for k, want := range map[int][]int{
		1: {5, 4096}, 2: {5, 90, 4096}, 3: {5, 90, 4000, 4096, 5000}, 64: {5, 90, 4000, 4095, 4096, 5000},
	} {
		if got := sent(k, x); !slices.Equal(got, want) {
			t.Errorf("k %d: %v are sent, want %v", k, got, want)
		}
	}
	x[17], x[18] = 0x1p99, 0x1p90
	if got := sent(64, x[:TopKBlock]); !slices.Equal(got, []int{17}) {
		t.Errorf("beside a far larger one %v are sent", got)
	}
}

// What no encoder writes is refused, and the reason is named.
func TestTopKRefuses(t *testing.T) {
	k, n := TopK{128, 2}, 100 // 4 values, 4 low bits each
	pack := func(scale int, at ...int) []byte { return packTopK(k, n, scale, at, make([]int, len(at))) }
	good := pack(254, 3, 40, 41, 99)
	least, most := pack(topKLeastScale, 3), pack(topKMostScale, 3)
	for _, b := range [][]byte{good, pack(0), least, most} {
		if bad, why := k.Decode(make([]float32, n), b); bad >= 0 {
			t.Errorf("%x is refused: %s", b, why)
		}
	}
	change := func(b []byte, bit int) []byte {
		b = slices.Clone(b)
		b[bit/8] ^= 1 << (bit % 8)
		return b
	}
	l := k.layout(n)
	extra := change(pack(254, 3, 40, 41, 42), l.highAt+8)
	for why, b := range map[string][]byte{
		"too small":                 pack(topKLeastScale-1, 3),
		"the scale is NaN: inf":     pack(510, 3),
		"the scale is NaN":          pack(511, 3),
		"a position is there twice": pack(254, 3, 40, 40, 99),
		"not in order":              pack(254, 3, 41, 40, 99),
		"out of range":              pack(254, 3, 40, 41, 100),
		"too many values":           extra,
		"a scale without values":    pack(254),
		"values without a scale":    pack(0, 3),
		"unused bits are set":       change(pack(254, 3, 40, 41), l.scaleAt-1),
		"unused bits are set: end":  change(good, l.end),
	} {
		if bad, got := k.Decode(make([]float32, n), b); bad != 0 || !named(got, why) {
			t.Errorf("%s: refused at %d, %q", why, bad, got)
		}
	}
}

// named says whether a reason has what a case expects, up to a colon.
func named(reason, want string) bool {
	before, _, _ := bytes.Cut([]byte(want), []byte(":"))
	return bytes.Contains([]byte(reason), before)
}

// FuzzTopK gives the decoder foreign bytes: those that it takes are the only ones for their scale,
// positions and levels, and the sparse forms agree with it.
func FuzzTopK(f *testing.F) {
	for _, k := range []TopK{{64, 2}, {MaxTopK, 4}, {1, 2}} {
		for _, n := range []int{0, 1, 100, TopKBlock + 1} {
			enc := make([]byte, k.Size(n))
			k.Encode(enc, noise(rand.New(rand.NewPCG(9, 9)), n))
			f.Add(uint16(k.K), k.Bits == 4, uint16(n), enc)
		}
	}
	f.Fuzz(func(t *testing.T, most uint16, four bool, n uint16, enc []byte) {
		k := TopK{1 + int(most-1)%MaxTopK, 2}
		if four {
			k.Bits = 4
		}
		if len(enc) != k.Size(int(n)) {
			return
		}
		rest, all, values := enc, make([]uint16, k.K), make([]float32, k.K)
		for begin := 0; begin < int(n); begin += TopKBlock {
			l := k.layout(min(TopKBlock, int(n)-begin))
			sent, why := k.read(l, rest[:(l.end+7)/8], all, values)
			if why != "" {
				return
			}
			at := all[:sent]
			scale := getBits(rest, l.scaleAt, topKScaleBits)
			decoded := k.decoded(math.Float32frombits(scale << topKScaleShift))
			var positions, codes []int
			for i, p := range at {
				positions = append(positions, int(p))
				codes = append(codes, slices.Index(decoded[:], values[i]))
			}
			want := packTopK(k, l.n, int(scale), positions, codes)
			if !bytes.Equal(rest[:len(want)], want) {
				t.Fatalf("element %d: took\n%x for\n%x", begin, rest[:len(want)], want)
			}
			rest = rest[len(want):]
		}
	})
}
