package codec

import (
	"fmt"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// The dense codecs. All but f32 lose something. Their bytes are those of the kernels
// (internal/kernel/quant.go); docs/spec/reduction.md has the formats.
const (
	F32  = "f32"  // little-endian IEEE-754: 4 bytes an element
	BF16 = "bf16" // the upper half of each float32: 2 bytes an element
	Int8 = "int8" // blocks of 256 with a common scale: 1.015625 bytes an element
	Int4 = "int4" // blocks of 256 with a common scale: 0.515625 bytes an element
	// blocks of 1024, of which the mean magnitude and the signs are left: 0.12890625 bytes an
	// element
	Sign = "sign"
)

// coded is a codec of a pair of kernels.
type coded struct {
	name   string
	block  int
	size   func(elements int) int
	encode func(dst []byte, src []float32)
	// index of an element in the first block that is no encoder's, and what is wrong; -1: none is
	decode   func(dst []float32, src []byte) (bad int, why string)
	growth   float64
	feedback float32
}

func (c coded) Name() string                 { return c.name }
func (c coded) Block() int                   { return c.block }
func (c coded) Lossy() bool                  { return c.name != F32 }
func (c coded) Growth() float64              { return c.growth }
func (c coded) Feedback() float32            { return c.feedback }
func (c coded) EncodedSize(elements int) int { return c.size(elements) }

func (c coded) Append(dst []byte, src []float32) []byte {
	n, size := len(dst), c.size(len(src))
	dst = slices.Grow(dst, size)[:n+size]
	c.encode(dst[n:], src)
	return dst
}

func (c coded) Decode(dst []float32, src []byte) error {
	if want := c.size(len(dst)); len(src) != want {
		return fmt.Errorf("%w: %s of %d elements takes %d bytes, got %d", wire.ErrMalformed, c.name, len(dst), want,
			len(src))
	}
	if at, why := c.decode(dst, src); at >= 0 {
		return fmt.Errorf("%w: %s block of element %d: %s", wire.ErrMalformed, c.name, at, why)
	}
	return nil
}

// total decodes any bytes: each are some value's.
func total(decode func([]float32, []byte)) func([]float32, []byte) (int, string) {
	return func(dst []float32, src []byte) (int, string) {
		decode(dst, src)
		return -1, ""
	}
}

// blockwise is a codec whose decoder refuses blocks that no encoder writes.
func blockwise(name string, b kernel.Blocks, growth float64) Codec {
	decode := func(dst []float32, src []byte) (int, string) { return b.Decode(dst, src), "no encoder writes it" }
	return coded{name, b.Elements, b.Size, b.Encode, decode, growth, 1}
}

func f32Size(elements int) int            { return 4 * elements }
func encodeF32(dst []byte, src []float32) { copy(dst, kernel.Bytes(src)) }

// growthBF16 is that of values that become greater by 2^-8.
const growthBF16 = (1 + 0x1p-8) * (1 + 0x1p-8)

// rounded is the growth of int8 and int4: a block's greatest value becomes L = 127 or 7 steps; of
// the other 255 each rounds to some integer r, and up from no less than r - 1/2. The sum of r^2
// over that of the values' squares is greatest where all have the same r:
// (255 r^2 + L^2) / (255 (r-1/2)^2 + L^2). It is 1.065 for int8, with r = 8, and 2.70 for int4,
// with r = 1.
func rounded(steps float64) (most float64) {
	const others = kernel.QuantBlock - 1
	for r := 1.0; r <= steps; r++ {
		most = max(most, (others*r*r+steps*steps)/(others*(r-.5)*(r-.5)+steps*steps))
	}
	return most
}
