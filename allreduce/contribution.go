package allreduce

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/allreduce/internal/plan"
	"github.com/p2pdiloco/p2pdiloco/internal/hashtree"
	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// ErrNotFinite is wrapped when a contribution holds NaN, Inf, or values of 2^100 (about 1.3e30) or
// more in magnitude (kernel.Limit), whose sums might overflow. Such a contribution must not be
// offered.
var ErrNotFinite = errors.New("value is not finite, or 2^100 (about 1.3e30) or more in magnitude")

// ErrFalseNorm is wrapped where a frame has another squared norm than its contributor has committed
// to.
var ErrFalseNorm = errors.New("the norm that was committed to is false")

// BadFrame says that a contributor has committed to a frame that no honest peer commits to. What it
// holds proves that to everybody who has the peer's signed offer (package audit). It is in the
// error that [Sink].Lost gets with the reasons BadValue, FalseNorm, and BadBytes where the frame is
// no encoding.
type BadFrame struct {
	Peer  slot.PeerID
	Frame int    // in the fragment
	Bytes []byte // all of it
	Leaf  slot.FrameLeaf
	Path  []slot.Root // of the frame, in slot.ContributionTree
	Err   error       // wraps ErrNotFinite, ErrFalseNorm or wire.ErrMalformed
}

// Error says what is wrong with the frame.
func (b *BadFrame) Error() string {
	return fmt.Sprintf("frame %d of %s, which it has committed to: %v", b.Frame, b.Peer.Short(), b.Err)
}

// Unwrap is what is wrong.
func (b *BadFrame) Unwrap() error { return b.Err }

// BadTotal says that a contributor states another squared norm in its offer than those of its
// frames add up to. Leaves prove that to everybody who has the peer's signed offer. It is in the
// error that [Sink].Lost gets with the reason FalseNorm.
type BadTotal struct {
	Peer   slot.PeerID
	Stated float64
	Leaves []slot.FrameLeaf // what it commits to, of each frame
}

// Error says what is wrong.
func (b *BadTotal) Error() string {
	return fmt.Sprintf("%v: the offer of %s says %v of all, and its frames add up to %v", ErrFalseNorm, b.Peer.Short(),
		b.Stated, slot.TotalNormSq(b.Leaves))
}

// Unwrap is what is wrong.
func (b *BadTotal) Unwrap() error { return ErrFalseNorm }

// Contribution is an encoded vector together with what commits to it: the hash and the squared norm
// of each frame.
type Contribution struct {
	data   []byte
	peer   slot.PeerID
	leaves []slot.FrameLeaf
	groups []slot.Root // hashtree.SumGroups of each frame
	tree   slot.Tree   // over the leaves
	root   slot.Root
	frame  int // bytes of each frame but the last
	holds  atomic.Int32
}

// Hold keeps the bytes as they are until Drop, which follows once. A reduction holds what it sends
// until it has ended.
func (c *Contribution) Hold() { c.holds.Add(1) }

// Drop ends a Hold.
func (c *Contribution) Drop() { c.holds.Add(-1) }

// Reclaim returns the buffer, for the next Encode, if nobody holds the contribution, which must not
// be used any more then. The caller sees to it that nobody else can come to hold it.
func (c *Contribution) Reclaim() (buffer []byte, ok bool) { return c.data, c.holds.Load() == 0 }

// Commit checks, measures and hashes a whole encoded fragment of peer self, which must not change
// while the contribution is in use: any number of reductions may send it. Its Root goes into the
// offer. The error wraps ErrNotFinite or wire.ErrMalformed, or says that the length is wrong.
func Commit(p Params, fragment uint32, self slot.PeerID, encoded []byte) (*Contribution, error) {
	g := plan.NewGrid(p, fragment)
	if len(encoded) != g.TotalBytes {
		return nil, fmt.Errorf("contribution of %d bytes: %s of %d elements takes %d", len(encoded), p.Codec, g.Total,
			g.TotalBytes)
	}
	return commitEach(g, self, encoded, func(f int) ([]float32, error) {
		var in frame
		err := in.decode(g, f, g.Frame(encoded, f), false)
		return in.values, err
	})
}

// Encode puts a whole fragment's values into the codec and commits to that, as Commit does. The
// values are overwritten by what everybody decodes; where the codec is not lossy that is the same.
// The contribution has its bytes in buffer, if that is large enough: memory that a process has not
// had before costs it many times as long as writing to it. The error wraps ErrNotFinite, or says
// that the length is wrong.
func Encode(p Params, fragment uint32, self slot.PeerID, values []float32, buffer []byte) (*Contribution, error) {
	g := plan.NewGrid(p, fragment)
	if uint64(len(values)) != g.Total {
		return nil, fmt.Errorf("contribution of %d elements: fragment %d has %d", len(values), fragment, g.Total)
	}
	if cap(buffer) < g.TotalBytes {
		buffer = make([]byte, g.TotalBytes)
	}
	encoded := buffer[:g.TotalBytes]
	return commitEach(g, self, encoded, func(f int) ([]float32, error) {
		part := values[f*g.FrameElements:][:g.FrameLen(f)]
		return part, encodeFrame(g, f, g.Frame(encoded, f), part)
	})
}

// encodeFrame puts the values of frame f into dst, and what everybody decodes from it into values.
func encodeFrame(g plan.Grid, f int, dst []byte, values []float32) error {
	g.Codec.Append(dst[:0], values)
	if g.Codec.Lossy() {
		// some codecs make numbers of what is none
		if err := bounded(g, f, values); err != nil {
			return err
		}
		if err := g.Codec.Decode(values, dst); err != nil {
			return err
		}
	}
	return bounded(g, f, values)
}

// bounded says whether the values of frame f may be in a contribution.
func bounded(g plan.Grid, f int, values []float32) error {
	if at := kernel.Bounded(values); at >= 0 {
		return fmt.Errorf("element %d: %w", f*g.FrameElements+at, ErrNotFinite)
	}
	return nil
}

// commitEach measures and hashes an encoded fragment, frame by frame, each made and checked by do
// before, which returns what decodes from it: so that all of it is still in the cache. The error is
// that of the first frame that has one.
func commitEach(g plan.Grid, self slot.PeerID, encoded []byte,
	do func(f int) (values []float32, err error),
) (*Contribution, error) {
	c := &Contribution{
		data: encoded, peer: self, leaves: make([]slot.FrameLeaf, g.Frames), frame: g.FrameBytes,
		groups: make([]slot.Root, g.Frames*hashtree.Groups(g.FrameBytes)),
	}
	err := eachFrame(g.Frames, func(f int) error {
		values, err := do(f)
		if err == nil {
			c.leaves[f] = g.Leaf(values, g.Frame(encoded, f), c.Groups(f))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	c.Recommit()
	return c, nil
}

// Recommit makes Root that of the present Leaves, whether these are true or not. Only tests change
// the leaves of a contribution: a lying peer offers such a one.
func (c *Contribution) Recommit() {
	c.tree = slot.ContributionTree(c.leaves)
	c.root = c.tree.Seal(c.peer, c.frame, uint64(len(c.data)))
}

// Root is the commitment: slot.ContributionRoot.
func (c *Contribution) Root() slot.Root { return c.root }

// Groups is what the groups of a frame hash to: hashtree.Open shows parts of it by them.
func (c *Contribution) Groups(frame int) []slot.Root {
	n := hashtree.Groups(c.frame)
	return c.groups[frame*n:][:n]
}

// Path leads from a frame to the root: see slot.ContributionRootFrom.
func (c *Contribution) Path(frame int) []slot.Root { return c.tree.Path(frame) }

// Bytes is the encoded vector, not copied.
func (c *Contribution) Bytes() []byte { return c.data }

// Leaves is what the root commits to, of each frame, not copied.
func (c *Contribution) Leaves() []slot.FrameLeaf { return c.leaves }

// NormSq is the squared norm that the offer states.
func (c *Contribution) NormSq() float64 { return slot.TotalNormSq(c.leaves) }

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
	if err := bounded(g, f, fr.values); err != nil {
		return err
	}
	if norm {
		fr.norm = kernel.NormSq(fr.values)
	}
	return nil
}

// check is decode of a frame that its contributor has committed to: the norm must be the true one,
// bit for bit.
func (fr *frame) check(g plan.Grid, f int, encoded []byte, leaf slot.FrameLeaf, norm bool) error {
	if err := fr.decode(g, f, encoded, norm || g.Measured()); err != nil {
		return err
	}
	if g.Measured() && math.Float64bits(fr.norm) != math.Float64bits(leaf.NormSq) {
		return fmt.Errorf("frame %d: %w: %v where %v is true", f, ErrFalseNorm, leaf.NormSq, fr.norm)
	}
	return nil
}
