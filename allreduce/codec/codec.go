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
	F32:  f32{},
	BF16: quantised{BF16, 1, kernel.BF16Size, kernel.EncodeBF16, decodeBF16},
	Int8: quantised{Int8, kernel.QuantBlock, kernel.Int8Size, kernel.EncodeInt8, kernel.DecodeInt8},
	Int4: quantised{Int4, kernel.QuantBlock, kernel.Int4Size, kernel.EncodeInt4, kernel.DecodeInt4},
	Sign: quantised{Sign, kernel.SignBlock, kernel.SignSize, kernel.EncodeSign, kernel.DecodeSign},
}

// Names are the codecs' names, sorted.
func Names() []string { return slices.Sorted(maps.Keys(codecs)) }

// New returns the codec of that name, as a run spec spells it.
func New(name string) (Codec, error) {
	if c, ok := codecs[name]; ok {
		return c, nil
	}
	return nil, fmt.Errorf("codec %.40q is not known: use one of %s", name, strings.Join(Names(), ", "))
}

// Outcome is the codec that the outcome of contributions in c travels in. It is c itself but for
// sign: what an owner loses of a reduced segment nobody sends again, owners change from slot to
// slot, and signs alone lose too much (docs/decisions/codecs-lossy.md).
func Outcome(c Codec) Codec {
	if c.Name() == Sign {
		return codecs[Int4]
	}
	return c
}

// checkSize says whether src is as long as c's encoding of that many elements.
func checkSize(c Codec, elements int, src []byte) error {
	if want := c.EncodedSize(elements); len(src) != want {
		return fmt.Errorf("%w: %s of %d elements takes %d bytes, got %d", wire.ErrMalformed, c.Name(), elements, want,
			len(src))
	}
	return nil
}
