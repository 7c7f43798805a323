package codec

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// TopK names the sparse codec (SparseLoCo, arXiv 2508.15706): of each block the values of largest
// magnitude, at 2 or 4 bits, and their positions. kernel.TopK has the format.
const TopK = "topk"

// Sparse is a codec that sends some values alone. The others decode to 0.
type Sparse interface {
	Codec
	// Values is the number of values that are sent of each block.
	Values() int
}

// defaultK and defaultBits are those of topk without parameters.
const (
	defaultK    = 64
	defaultBits = 2
)

// newTopK returns topk with parameters, K:BITS.
func newTopK(parameters string) (Codec, error) {
	k, bits, _ := strings.Cut(parameters, ":")
	t := topK{name: TopK + ":" + parameters}
	var err1, err2 error
	t.format.K, err1 = strconv.Atoi(k)
	t.format.Bits, err2 = strconv.Atoi(bits)
	if err1 != nil || err2 != nil || t.format.K < 1 || t.format.K > kernel.MaxTopK ||
		t.format.Bits != 2 && t.format.Bits != 4 || t.name != FormatTopK(t.format.K, t.format.Bits) {
		return nil, fmt.Errorf("codec %.40q: %s:K:BITS has K from 1 to %d, the values sent of each %d, and 2 or 4 bits",
			t.name, TopK, kernel.MaxTopK, kernel.TopKBlock)
	}
	return t, nil
}

// FormatTopK is the name of topk with parameters.
func FormatTopK(k, bits int) string { return fmt.Sprintf("%s:%d:%d", TopK, k, bits) }

type topK struct {
	name   string
	format kernel.TopK
}

func (t topK) Name() string    { return t.name }
func (topK) Block() int        { return kernel.TopKBlock }
func (topK) Lossy() bool       { return true }
func (topK) Feedback() float32 { return 0.95 }

// Growth is that of a value at the middle between 0 and the lowest level, which becomes that level.
func (topK) Growth() float64 { return 4 }

func (t topK) Values() int                  { return t.format.K }
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

// malformedTopK is the error of a block that begins at an element; nil if it is -1.
func malformedTopK(bad int, why string) error {
	if bad < 0 {
		return nil
	}
	return fmt.Errorf("%w: %s block of element %d: %s", wire.ErrMalformed, TopK, bad, why)
}
