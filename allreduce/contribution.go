package allreduce

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/p2pdiloco/p2pdiloco/allreduce/internal/plan"
	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// ErrNotFinite is wrapped when a contribution holds NaN, Inf, or values of 2^100 (about 1.3e30) or
// more in magnitude (kernel.Limit), whose sums might overflow. Such a contribution must not be
// offered.
var ErrNotFinite = errors.New("value is not finite, or 2^100 (about 1.3e30) or more in magnitude")

// BadElement is one whose value may not be in a contribution. It wraps ErrNotFinite.
type BadElement struct {
	Element uint64 // of the fragment
	Value   float32
}

// Error says which element it is.
func (b *BadElement) Error() string { return fmt.Sprintf("element %d: %v", b.Element, ErrNotFinite) }

// Unwrap is ErrNotFinite.
func (b *BadElement) Unwrap() error { return ErrNotFinite }

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
	groups []slot.Root // wire.SumGroups of each frame
	tree   slot.Tree   // over the leaves
	root   slot.Root
	grid   plan.Grid
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

// Values are those of a whole fragment, as Encode takes them: a frame at a time, each once.
type Values interface {
	// Come calls ready, from one goroutine, when Fill can have the first n elements, with rising n.
	// An error of ready ends it. When it returns nil, Fill can have all. room is where the values
	// end, which may hold anything before; nil where the codec is not float32 itself.
	Come(room []float32, ready func(n uint64) error) error
	// Fill sets x to the values from element begin on. It is called from many goroutines. x is the
	// same part of room, if there is one.
	Fill(begin uint64, x []float32) error
	// Decoded is told what everybody decodes in place of the values from element begin on, after
	// Fill and from the same goroutine. It is not called where the codec loses nothing.
	Decoded(begin uint64, x []float32)
}

// Vector is Values that are there. They are overwritten by what everybody decodes.
type Vector []float32

// Come implements Values.
func (v Vector) Come([]float32, func(n uint64) error) error { return nil }

// Fill implements Values.
func (v Vector) Fill(begin uint64, x []float32) error {
	copy(x, v[begin:])
	return nil
}

// Decoded implements Values.
func (v Vector) Decoded(begin uint64, x []float32) { copy(v[begin:], x) }

// Encode puts a whole fragment's values into the codec, and commits to that for peer self, in one
// pass: a frame is filled, checked, encoded, measured and hashed while it is in the cache. The
// contribution's Root goes into the offer; any number of reductions may send it. It has its bytes
// in buffer, if that is large enough: memory that a process has not had before costs it many times
// as long as writing to it. The error is one of values', or a BadElement.
func Encode(p Params, fragment uint32, self slot.PeerID, values Values, buffer []byte) (*Contribution, error) {
	g := plan.NewGrid(p, fragment)
	if cap(buffer) < g.TotalBytes {
		buffer = make([]byte, g.TotalBytes)
	}
	c, next := newContribution(g, self, buffer[:g.TotalBytes]), 0
	var room []float32
	if !g.Codec.Lossy() {
		room, _ = kernel.Overlay(c.data)
	}
	var failed error
	ready := func(n uint64) error {
		last := int(n / uint64(g.FrameElements))
		if n >= g.Total {
			last = g.Frames
		}
		if failed == nil && next < last {
			failed = c.commit(next, last, func(in *frame, f int) error {
				return in.encode(g, f, g.Frame(c.data, f), room, values)
			})
			next = last
		}
		return failed
	}
	if err := values.Come(room, ready); err != nil {
		return nil, err
	}
	if ready(g.Total) != nil {
		return nil, failed
	}
	c.Recommit()
	return c, nil
}

// newContribution is one that commits to nothing yet.
func newContribution(g plan.Grid, self slot.PeerID, encoded []byte) *Contribution {
	return &Contribution{
		data: encoded, peer: self, leaves: make([]slot.FrameLeaf, g.Frames), grid: g,
		groups: make([]slot.Root, g.Frames*wire.HashGroups(g.FrameBytes)),
	}
}

// commit makes the leaves of the frames [first, last), on all cores, each core's in order. do makes
// each of them before, and leaves in in what decodes from it. The error is that of the first frame
// that has one.
func (c *Contribution) commit(first, last int, do func(in *frame, f int) error) error {
	frames := last - first
	errs := make([]error, min(runtime.GOMAXPROCS(0), frames))
	var wg sync.WaitGroup
	for w := range errs {
		wg.Go(func() {
			var in frame
			for f := first + frames*w/len(errs); f < first+frames*(w+1)/len(errs) && errs[w] == nil; f++ {
				if errs[w] = do(&in, f); errs[w] == nil {
					c.leaves[f] = leafOf(in.values, c.grid.Frame(c.data, f), c.Groups(f))
				}
			}
		})
	}
	wg.Wait()
	return cmp.Or(errs...)
}

// leafOf is what a contribution commits to of a frame. groups is room for what its groups hash to,
// which opens the frame later.
func leafOf(values []float32, frame []byte, groups []slot.Root) slot.FrameLeaf {
	return slot.FrameLeaf{NormSq: kernel.NormSq(values), Hash: wire.SumGroups(frame, groups)}
}

// Recommit makes Root that of the present Leaves, whether these are true or not. Only tests change
// the leaves of a contribution: a lying peer offers such a one.
func (c *Contribution) Recommit() {
	c.tree = slot.ContributionTree(c.leaves)
	c.root = c.tree.Seal(c.peer, c.grid.FrameBytes, uint64(len(c.data)))
}

// Values are what everybody decodes.
func (c *Contribution) Values() []float32 {
	x := make([]float32, c.grid.Total)
	var in frame
	for f := range c.grid.Frames {
		_ = in.decode(c.grid, f, c.grid.Frame(c.data, f)) // Encode wrote it
		copy(x[f*c.grid.FrameElements:], in.values)
	}
	return x
}

// Change commits to other values, as if Encode had been given them; x becomes what everybody
// decodes. Hostile peers of tests lie with it before they offer. If it fails, some frames have the
// other values and some the old ones.
func (c *Contribution) Change(x []float32) error {
	err := c.commit(0, c.grid.Frames, func(in *frame, f int) error {
		return in.encode(c.grid, f, c.grid.Frame(c.data, f), nil, Vector(x))
	})
	c.Recommit()
	return err
}

// Root is the commitment: slot.ContributionRoot.
func (c *Contribution) Root() slot.Root { return c.root }

// Groups is what the groups of a frame hash to: wire.Open shows parts of it by them.
func (c *Contribution) Groups(frame int) []slot.Root {
	n := wire.HashGroups(c.grid.FrameBytes)
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
	norm   float64   // squared norm that was committed to
}

// decode fills values from the encoded bytes of frame f, which must stay as long as values are
// used.
func (fr *frame) decode(g plan.Grid, f int, encoded []byte) error {
	if !g.Codec.Lossy() {
		fr.values = kernel.Float32s(encoded)
	} else {
		fr.resize(g, f)
		if err := g.Codec.Decode(fr.values, encoded); err != nil {
			return err
		}
	}
	return bounded(g, f, fr.values)
}

// resize has the values of frame f in room.
func (fr *frame) resize(g plan.Grid, f int) {
	if fr.room == nil {
		fr.room = make([]float32, g.FrameElements)
	}
	fr.values = fr.room[:g.FrameLen(f)]
}

// encode fills frame f, puts it into dst, and leaves what everybody decodes from that in values. If
// there is room, dst is in it, and the values are written there at once.
func (fr *frame) encode(g plan.Grid, f int, dst []byte, room []float32, values Values) error {
	begin := uint64(f) * uint64(g.FrameElements)
	if room != nil {
		fr.values = room[begin:][:g.FrameLen(f)]
	} else {
		fr.resize(g, f)
	}
	if err := values.Fill(begin, fr.values); err != nil {
		return err
	}
	// before the codec: some make numbers of what is none
	if err := bounded(g, f, fr.values); err != nil || room != nil {
		return err
	}
	g.Codec.Append(dst[:0], fr.values)
	if !g.Codec.Lossy() {
		return nil
	}
	if err := g.Codec.Decode(fr.values, dst); err != nil {
		return err
	}
	values.Decoded(begin, fr.values)
	return bounded(g, f, fr.values)
}

// bounded says whether the values of frame f may be in a contribution.
func bounded(g plan.Grid, f int, values []float32) error {
	if at := kernel.Bounded(values); at >= 0 {
		return &BadElement{uint64(f*g.FrameElements + at), values[at]}
	}
	return nil
}

// check is decode of a frame that its contributor has committed to: the norm must be the true one,
// bit for bit.
func (fr *frame) check(g plan.Grid, f int, encoded []byte, leaf slot.FrameLeaf) error {
	if err := fr.decode(g, f, encoded); err != nil {
		return err
	}
	fr.norm = leaf.NormSq
	if norm := kernel.NormSq(fr.values); math.Float64bits(norm) != math.Float64bits(leaf.NormSq) {
		return fmt.Errorf("frame %d: %w: %v where %v is true", f, ErrFalseNorm, leaf.NormSq, norm)
	}
	return nil
}
