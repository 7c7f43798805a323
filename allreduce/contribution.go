package allreduce

import (
	"errors"
	"fmt"

	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/allreduce/internal/plan"
	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// ErrNotFinite is wrapped when a contribution holds NaN, Inf, or values of 2^100 (about 1.3e30) or
// more in magnitude (kernel.Limit), whose sums might overflow. Such a contribution must not be
// offered.
var ErrNotFinite = errors.New("value is not finite, or 2^100 (about 1.3e30) or more in magnitude")

// Contribution is an encoded vector together with the hashes that commit to it.
type Contribution struct {
	data   []byte
	hashes []slot.Root
	root   slot.Root
}

// Commit checks and hashes a whole encoded fragment, which must not change while the contribution
// is in use: any number of reductions may send it. Its Root goes into the offer. The error wraps
// ErrNotFinite or wire.ErrMalformed, or says that the length is wrong.
func Commit(p Params, fragment uint32, encoded []byte) (*Contribution, error) {
	g := plan.NewGrid(p, fragment)
	if len(encoded) != g.TotalBytes {
		return nil, fmt.Errorf("contribution of %d bytes: %s of %d elements takes %d", len(encoded), p.Codec, g.Total,
			g.TotalBytes)
	}
	return commitEach(g, encoded, func(f int) error {
		var in frame
		return in.decode(g, f, g.Frame(encoded, f), false)
	})
}

// Encode puts a whole fragment's values into the codec and commits to that. The values are
// overwritten by what everybody decodes; where the codec is not lossy that is the same. The error
// wraps ErrNotFinite, or says that the length is wrong.
func Encode(p Params, fragment uint32, values []float32) (*Contribution, error) {
	g := plan.NewGrid(p, fragment)
	if uint64(len(values)) != g.Total {
		return nil, fmt.Errorf("contribution of %d elements: fragment %d has %d", len(values), fragment, g.Total)
	}
	encoded := make([]byte, g.TotalBytes)
	return commitEach(g, encoded, func(f int) error {
		part, at := values[f*g.FrameElements:][:g.FrameLen(f)], f*g.FrameElements
		g.Codec.Append(g.Frame(encoded, f)[:0], part)
		if g.Codec.Lossy() {
			if i := kernel.Bounded(part); i >= 0 { // of which some codecs make a number
				return fmt.Errorf("element %d: %w", at+i, ErrNotFinite)
			}
			if err := g.Codec.Decode(part, g.Frame(encoded, f)); err != nil {
				return err
			}
		}
		if i := kernel.Bounded(part); i >= 0 {
			return fmt.Errorf("element %d: %w", at+i, ErrNotFinite)
		}
		return nil
	})
}

// commitEach hashes an encoded fragment, frame by frame, each made and checked by do before: so
// that it is still in the cache. The error is that of the first frame that has one.
func commitEach(g plan.Grid, encoded []byte, do func(f int) error) (*Contribution, error) {
	c := &Contribution{data: encoded, hashes: make([]slot.Root, g.Frames)}
	err := eachFrame(g.Frames, func(f int) error {
		if err := do(f); err != nil {
			return err
		}
		c.hashes[f] = g.Hash(g.Frame(encoded, f))
		return nil
	})
	if err != nil {
		return nil, err
	}
	c.root = slot.FrameRoot(c.hashes, g.FrameBytes, uint64(len(encoded)))
	return c, nil
}

// Root is the commitment: slot.FrameRoot over the encoded bytes.
func (c *Contribution) Root() slot.Root { return c.root }

// Bytes is the encoded vector, not copied.
func (c *Contribution) Bytes() []byte { return c.data }

// frame is one frame of one contribution on its way into the aggregate.
type frame struct {
	buf    []byte    // room for the encoded bytes, used for what comes from the network
	room   []float32 // room for decoded values, used where there is no view
	values []float32 // decoded values: a view of the encoded bytes or of room
	norm   float64   // squared norm, if it was asked for
}

// decode fills values and norm from the encoded bytes of frame f, which must stay as long as values
// are used.
func (fr *frame) decode(g plan.Grid, f int, encoded []byte, norm bool) error {
	n := g.FrameLen(f)
	if g.Codec.Name() == codec.F32 {
		fr.values = kernel.Float32s(encoded)
	} else {
		if cap(fr.room) < n {
			fr.room = make([]float32, g.FrameElements)
		}
		fr.values = fr.room[:n]
		if err := g.Codec.Decode(fr.values, encoded); err != nil {
			return err
		}
	}
	if at := kernel.Bounded(fr.values); at >= 0 {
		return fmt.Errorf("element %d: %w", f*g.FrameElements+at, ErrNotFinite)
	}
	if norm {
		fr.norm = kernel.NormSq(fr.values)
	}
	return nil
}
