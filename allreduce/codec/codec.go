package codec

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// Codec turns float32 values into bytes and back.
type Codec struct {
	Name string // in the run spec
	// Block is the number of elements that are encoded as a unit, at least 1. Ranges that are
	// encoded or decoded on their own begin at a multiple of it, and end at one or at the vector's
	// end.
	Block int
	// Values is the number of values that are sent of each block, where the others decode to 0; 0:
	// all are sent.
	Values int
	// Growth is by how much encoding can make the squared norm of values greater, at most.
	Growth float64
	// Feedback is the factor of error feedback: how much of what encoding loses is kept from one
	// slot to the next, at most 1. It is 1 where most of it is sent next time.
	Feedback float32

	size   func(elements int) int
	encode func(dst []byte, src []float32)
	// index of an element in the first block that is no encoder's, and what is wrong; -1: none is
	decode func(dst []float32, src []byte) (bad int, why string)
}

// Lossy says whether a value may come back as another one: then the sender keeps the difference and
// adds it to what it sends next.
func (c Codec) Lossy() bool { return c.Name != F32 }

// EncodedSize is the exact number of bytes that so many elements take. It never falls as elements
// rise.
func (c Codec) EncodedSize(elements int) int { return c.size(elements) }

// Append appends the encoding of src, EncodedSize(len(src)) bytes, to dst. Equal values give equal
// bytes.
func (c Codec) Append(dst []byte, src []float32) []byte {
	n, size := len(dst), c.size(len(src))
	dst = slices.Grow(dst, size)[:n+size]
	c.encode(dst[n:], src)
	return dst
}

// Decode fills dst from src. Its error wraps wire.ErrMalformed when src is not an encoding of
// len(dst) elements; dst may then hold anything. Neither slice is kept.
func (c Codec) Decode(dst []float32, src []byte) error {
	if want := c.size(len(dst)); len(src) != want {
		return fmt.Errorf("%w: %s of %d elements takes %d bytes, got %d", wire.ErrMalformed, c.Name, len(dst), want,
			len(src))
	}
	if at, why := c.decode(dst, src); at >= 0 {
		return fmt.Errorf("%w: %s block of element %d: %s", wire.ErrMalformed, c.Name, at, why)
	}
	return nil
}

var codecs = map[string]Codec{
	F32:  {F32, 1, 0, 1, 1, f32Size, encodeF32, total(kernel.GetFloat32s)},
	BF16: {BF16, 1, 0, growthBF16, 1, kernel.BF16Size, kernel.EncodeBF16, total(kernel.DecodeBF16)},
	Int8: blockwise(Int8, kernel.Int8, rounded(127)),
	Int4: blockwise(Int4, kernel.Int4, rounded(7)),
	Sign: blockwise(Sign, kernel.Sign, 1),
	TopK: sparseCodec(TopK, kernel.TopK{K: defaultK, Bits: defaultBits}),
}

// Names are the codecs' names, sorted. topk may have parameters behind it: see New.
func Names() []string { return slices.Sorted(maps.Keys(codecs)) }

// New returns the codec of that name, as a run spec spells it. topk:K:BITS is topk with K values of
// each kernel.TopKBlock, at so many bits; without parameters it is topk:64:2.
func New(name string) (Codec, error) {
	if c, ok := codecs[name]; ok {
		return c, nil
	}
	if parameters, ok := strings.CutPrefix(name, TopK+":"); ok {
		return newTopK(parameters)
	}
	return Codec{}, fmt.Errorf("codec %.40q is not known: use one of %s, or topk:K:BITS", name,
		strings.Join(Names(), ", "))
}

// NewOutcome returns the codec that the outcome of contributions travels in, by both names. An
// empty one stands for that of the contributions, but for int4 where that is sign: what an owner
// loses of a reduced segment nobody sends again, owners change from slot to slot, and signs alone
// lose too much (docs/why/decisions.md, 9).
func NewOutcome(contributions, outcome string) (Codec, error) {
	if outcome == "" {
		if outcome = contributions; outcome == Sign {
			outcome = Int4
		}
	}
	if outcome == Sign {
		return Codec{}, fmt.Errorf("codec %s is for contributions alone: signs lose too much of an outcome", Sign)
	}
	return New(outcome)
}
