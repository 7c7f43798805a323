package codec

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
)

// Codec turns float32 values into bytes and back.
type Codec interface {
	// Name is the codec's name in the run spec.
	Name() string
	// Block is the number of elements that are encoded as a unit, at least 1. Ranges that are
	// encoded or decoded on their own begin at a multiple of it, and end at one or at the vector's
	// end.
	Block() int
	// Lossy says whether a value may come back as another one: then the sender keeps the
	// difference and adds it to what it sends next.
	Lossy() bool
	// Feedback is the factor of error feedback: how much of that difference is kept from one slot
	// to the next, at most 1. It is 1 where most of it is sent next time.
	Feedback() float32
	// Growth is by how much encoding can make the squared norm of values greater, at most.
	Growth() float64
	// EncodedSize is the exact number of bytes that so many elements take. It never falls as
	// elements rise.
	EncodedSize(elements int) int
	// Append appends the encoding of src, EncodedSize(len(src)) bytes, to dst. Equal values give
	// equal bytes.
	Append(dst []byte, src []float32) []byte
	// Decode fills dst from src. Its error wraps wire.ErrMalformed when src is not an encoding of
	// len(dst) elements; dst may then hold anything. Neither slice is kept.
	Decode(dst []float32, src []byte) error
}

var codecs = map[string]Codec{
	F32:  coded{F32, 1, f32Size, encodeF32, total(kernel.GetFloat32s), 1, 1},
	BF16: coded{BF16, 1, kernel.BF16Size, kernel.EncodeBF16, total(kernel.DecodeBF16), growthBF16, 1},
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
	return nil, fmt.Errorf("codec %.40q is not known: use one of %s, or topk:K:BITS", name, strings.Join(Names(), ", "))
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
		return nil, fmt.Errorf("codec %s is for contributions alone: signs lose too much of an outcome", Sign)
	}
	return New(outcome)
}
