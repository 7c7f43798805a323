package codec

import (
	"fmt"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// The codecs that lose something. Their bytes are those of the kernels (internal/kernel/quant.go);
// docs/spec/reduction.md has the formats.
const (
	BF16 = "bf16" // the upper half of each float32: 2 bytes an element
	Int8 = "int8" // blocks of 256 with a common scale: 1.015625 bytes an element
	Int4 = "int4" // blocks of 256 with a common scale: 0.515625 bytes an element
	// blocks of 1024, of which the mean magnitude and the signs are left: 0.12890625 bytes an
	// element
	Sign = "sign"
)

// quantised is a codec of a pair of kernels.
type quantised struct {
	name   string
	block  int
	size   func(elements int) int
	encode func(dst []byte, src []float32)
	// index of an element in the first block that is no encoder's; -1: none
	decode func(dst []float32, src []byte) (bad int)
	growth float64
}

func (q quantised) Name() string                 { return q.name }
func (q quantised) Block() int                   { return q.block }
func (q quantised) Lossy() bool                  { return true }
func (q quantised) Growth() float64              { return q.growth }
func (q quantised) Feedback() float32            { return 1 }
func (q quantised) EncodedSize(elements int) int { return q.size(elements) }

func (q quantised) Append(dst []byte, src []float32) []byte {
	n, size := len(dst), q.size(len(src))
	dst = slices.Grow(dst, size)[:n+size]
	q.encode(dst[n:], src)
	return dst
}

func (q quantised) Decode(dst []float32, src []byte) error {
	if err := checkSize(q, len(dst), src); err != nil {
		return err
	}
	if at := q.decode(dst, src); at >= 0 {
		return fmt.Errorf("%w: %s block of element %d is none that an encoder writes", wire.ErrMalformed, q.name, at)
	}
	return nil
}

// decodeBF16 takes any bytes: each two are some value's.
func decodeBF16(dst []float32, src []byte) int {
	kernel.DecodeBF16(dst, src)
	return -1
}

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
