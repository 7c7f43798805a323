package kernel

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// TopK is the format topk (SparseLoCo, arXiv 2508.15706): of a block the K values of largest
// magnitude are sent, and all others decode to 0. Of equal magnitudes the one with the lower index
// is sent. Of a tail of n values ceil(n*K/TopKBlock) are sent.
//
// A value is its position, its sign and a level: the magnitude is a multiple of the block's scale,
// one of a few fixed ones. The scale is sum(x*x)/sum(|x|) over the values sent, float64 sums in
// rising order of positions, rounded to float32 and then to one bit of mantissa. So values of 0
// among those of largest magnitude do not count in it. A value takes the nearest level, the higher
// of two; one that is nearer to 0 than to the lowest level is not sent.
//
// Positions are in Elias-Fano code: low bits as they are, and the rest of position j, p, as a 1 at
// p>>low + j of a bit vector. A block's bits, the lowest of each byte first, are K entries (sign,
// level, the position's low bits), the scale (exponent and mantissa of a float32, 9 bits), the bit
// vector, and zeros up to a whole byte. Entries that no value has are 0, and so is all of a block
// of values below 2^-100.
type TopK struct {
	K    int // values sent of a block, 1 to MaxTopK
	Bits int // of a value's sign and level: 2 or 4
}

const (
	// TopKBlock is the number of elements that K is of.
	TopKBlock = 4096
	// MaxTopK is the largest K.
	MaxTopK = 1024

	topKScaleBits  = 9
	topKScaleShift = 22 // of a scale's bits in a float32
	topKMostScale  = exponentBits>>topKScaleShift - 1
	topKNoScale    = 1<<topKScaleBits - 1 // of a block with a NaN or an Inf in it
	// Values of which one is 2^-100 have a scale above 2^-105.
	topKLeastScale = (127 - 106) << (23 - topKScaleShift)
)

// Levels are multiples of a scale, rising. docs/why/decisions.md, 9 has the error that they
// leave.
var (
	topKLevels2 = [...]float32{14. / 16, 19. / 16}
	topKLevels4 = [...]float32{12. / 16, 13. / 16, 14. / 16, 1, 18. / 16, 20. / 16, 24. / 16, 30. / 16}
)

func (t TopK) levels() []float32 {
	if t.Bits == 2 {
		return topKLevels2[:]
	}
	return topKLevels4[:]
}

// topKLayout says where the bits of a block of n elements lie.
type topKLayout struct {
	n, k    int // elements, and how many of them are sent
	low     int // bits of a position that are in its entry
	entry   int // bits of an entry; entries begin at bit 0
	scaleAt int
	highAt  int // of the bit vector
	end     int
}

func (t TopK) layout(n int) topKLayout {
	l := topKLayout{n: n, k: (n*t.K + TopKBlock - 1) / TopKBlock}
	l.low = bits.Len(uint(n/l.k)) - 1
	l.entry = t.Bits + l.low
	l.scaleAt = l.k * l.entry
	l.highAt = l.scaleAt + topKScaleBits
	l.end = l.highAt + l.k + (n-1)>>l.low
	return l
}

func (t TopK) blockBytes(n int) int { return (t.layout(n).end + 7) / 8 }

// Size is the number of bytes that n elements take.
func (t TopK) Size(n int) int { return quantSize(n, TopKBlock, t.blockBytes) }

// Encode writes src block by block. len(dst) must be Size(len(src)).
func (t TopK) Encode(dst []byte, src []float32) {
	room := new(topKRoom)
	eachQuantBlock(src, dst, TopKBlock, t.blockBytes, func(x []float32, b []byte) bool {
		t.encode(x, b, room)
		return true
	})
}

func (t TopK) encode(x []float32, b []byte, room *topKRoom) {
	clear(b)
	l := t.layout(len(x))
	groups := room.maxima(x, l.k)
	if room.most >= exponentBits {
		putBits(b, l.scaleAt, topKScaleBits, topKNoScale)
		return
	}
	if room.most < tinyBits {
		return
	}
	at := room.largest(x, l.k, groups)
	scale := topKScale(x, at)
	putBits(b, l.scaleAt, topKScaleBits, scale)
	room.steps = t.thresholds(room.steps[:0], math.Float32frombits(scale<<topKScaleShift))
	sent := 0
	for _, p := range at {
		v := math.Float32bits(x[p])
		size := v &^ signBit
		if size < room.steps[0] {
			continue
		}
		code := v>>31 + 2*uint32(reachedBy(size, room.steps[1:]))
		putBits(b, sent*l.entry, l.entry, code|uint32(p)&(1<<l.low-1)<<t.Bits)
		high := l.highAt + int(p)>>l.low + sent
		b[high/8] |= 1 << (high % 8)
		sent++
	}
}

// topKScale returns the scale's bits of the values at some positions, not all of which are 0.
func topKScale(x []float32, at []uint16) uint32 {
	var squares, sum float64
	for _, p := range at {
		squares += product(x[p], x[p])
		sum += abs(x[p])
	}
	b := math.Float32bits(float32(squares / sum))
	return min((b+1<<(topKScaleShift-1))>>topKScaleShift, topKMostScale)
}

// thresholds appends the least magnitudes of the levels, as bits.
func (t TopK) thresholds(dst []uint32, scale float32) []uint32 {
	below := float32(0)
	for _, level := range t.levels() {
		dst = append(dst, math.Float32bits((below+level)/2*scale))
		below = level
	}
	return dst
}

// reachedBy returns how many steps a magnitude reaches.
func reachedBy(size uint32, steps []uint32) (n int) {
	for _, s := range steps {
		n += reaches(size, s)
	}
	return n
}

// read fills at and values with those of a block.
func (t TopK) read(l topKLayout, b []byte, at []uint16, values []float32) (sent int, why string) {
	scale := getBits(b, l.scaleAt, topKScaleBits)
	if scale != 0 && (scale < topKLeastScale || scale > topKMostScale) {
		return 0, "the scale is NaN, infinite or too small"
	}
	decoded := t.decoded(math.Float32frombits(scale << topKScaleShift))
	last := -1
	for i := l.highAt; i < l.end; i += 32 {
		for high := getBits(b, i, min(32, l.end-i)); high != 0; high &= high - 1 {
			if sent == l.k {
				return 0, "too many values"
			}
			entry := getBits(b, sent*l.entry, l.entry)
			p := (i-l.highAt+bits.TrailingZeros32(high)-sent)<<l.low | int(entry>>t.Bits)
			if p <= last || p >= l.n {
				return 0, "a position is there twice, not in order, or out of range"
			}
			at[sent], values[sent] = uint16(p), decoded[entry&(1<<t.Bits-1)]
			last = p
			sent++
		}
	}
	if (scale == 0) != (sent == 0) {
		return 0, "values without a scale, or a scale without values"
	}
	if !zeroBits(b, sent*l.entry, l.scaleAt) || !zeroBits(b, l.end, 8*len(b)) {
		return 0, "unused bits are set"
	}
	return sent, ""
}

// decoded returns the value of each sign and level.
func (t TopK) decoded(scale float32) (values [16]float32) {
	for i, level := range t.levels() {
		values[2*i], values[2*i+1] = level*scale, -level*scale
	}
	return values
}

// Decode fills dst from what Encode wrote and returns -1, or the index of the first element of a
// block that it did not write, and what is wrong; dst then holds anything from there on. len(src)
// must be Size(len(dst)).
func (t TopK) Decode(dst []float32, src []byte) (bad int, why string) {
	at, values := make([]uint16, t.K), make([]float32, t.K)
	bad = eachQuantBlock(dst, src, TopKBlock, t.blockBytes, func(x []float32, b []byte) bool {
		var sent int
		if sent, why = t.read(t.layout(len(x)), b, at, values); why != "" {
			return false
		}
		clear(x)
		for i, p := range at[:sent] {
			x[p] = values[i]
		}
		return true
	})
	return bad, why
}

// putBits sets bits of b from bit at on, width of them, which were 0.
func putBits(b []byte, at, width int, v uint32) {
	for end := at + width; at < end; {
		n := 8 - at%8
		b[at/8] |= byte(v << (at % 8))
		v >>= n
		at += n
	}
}

// getBits returns up to 32 bits of b from bit at on.
func getBits(b []byte, at, width int) uint32 {
	var all uint64
	first := b[at/8:]
	if len(first) >= 8 {
		all = binary.LittleEndian.Uint64(first)
	} else {
		for i, v := range first {
			all |= uint64(v) << (8 * i)
		}
	}
	return uint32(all >> (at % 8) & (1<<width - 1))
}

// zeroBits says whether the bits of b from one on up to another are 0.
func zeroBits(b []byte, from, to int) bool {
	for ; from < to; from += 32 {
		if getBits(b, from, min(32, to-from)) != 0 {
			return false
		}
	}
	return true
}
