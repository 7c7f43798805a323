package codec

import (
	"fmt"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// TopK names the sparse codec (SparseLoCo, arXiv 2508.15706): of each block the values of largest
// magnitude, at 2 or 4 bits, and their positions. kernel.TopK has the format.
const TopK = "topk"

// Sparse is a codec that sends some values alone. The others decode to 0. What follows costs as
// much as there are values that were sent; its errors are those of Decode.
type Sparse interface {
	Codec
	// Each calls f for each block: where it begins, and the positions in it and values that were
	// sent, in rising order of positions. They may be none, and f must not keep the slices.
	Each(elements int, src []byte, f func(begin int, at []uint16, values []float32)) error
	// Add adds scale times what Decode gives to sum: each product is rounded to float32. After an
	// error sum may hold anything.
	Add(sum []float32, src []byte, scale float32) error
	// NormSq is kernel.NormSq of what Decode gives, with the same bits.
	NormSq(elements int, src []byte) (float64, error)
}

// NewTopK returns the codec topk that sends k values of each kernel.TopKBlock, at so many bits. It
// is in no table of names: a run cannot use it yet, for contributions that are gathered have no
// owner who would reduce them.
func NewTopK(k, bits int) (Sparse, error) {
	if k < 1 || k > kernel.MaxTopK || bits != 2 && bits != 4 {
		return nil, fmt.Errorf("%s of %d values at %d bits: 1 to %d values at 2 or 4 bits are allowed", TopK, k, bits,
			kernel.MaxTopK)
	}
	return topK{kernel.TopK{K: k, Bits: bits}}, nil
}

type topK struct{ format kernel.TopK }

func (topK) Name() string                   { return TopK }
func (topK) Block() int                     { return kernel.TopKBlock }
func (topK) Lossy() bool                    { return true }
func (topK) Feedback() float32              { return 0.95 }
func (t topK) EncodedSize(elements int) int { return t.format.Size(elements) }

func (t topK) Append(dst []byte, src []float32) []byte {
	n, size := len(dst), t.format.Size(len(src))
	dst = slices.Grow(dst, size)[:n+size]
	t.format.Encode(dst[n:], src)
	return dst
}

func (t topK) Decode(dst []float32, src []byte) error {
	if err := checkSize(t, len(dst), src); err != nil {
		return err
	}
	return malformedTopK(t.format.Decode(dst, src))
}

func (t topK) Each(elements int, src []byte, f func(begin int, at []uint16, values []float32)) error {
	if err := checkSize(t, elements, src); err != nil {
		return err
	}
	return malformedTopK(t.format.Each(elements, src, f))
}

func (t topK) Add(sum []float32, src []byte, scale float32) error {
	if err := checkSize(t, len(sum), src); err != nil {
		return err
	}
	return malformedTopK(t.format.Add(sum, src, scale))
}

func (t topK) NormSq(elements int, src []byte) (float64, error) {
	if err := checkSize(t, elements, src); err != nil {
		return 0, err
	}
	normSq, bad, why := t.format.NormSq(elements, src)
	return normSq, malformedTopK(bad, why)
}

// malformedTopK is the error of a block that begins at an element; nil if it is -1.
func malformedTopK(bad int, why string) error {
	if bad < 0 {
		return nil
	}
	return fmt.Errorf("%w: %s block of element %d: %s", wire.ErrMalformed, TopK, bad, why)
}
