package replica

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/internal/checkpoint"
	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
	"github.com/p2pdiloco/p2pdiloco/outeropt"
)

// Run holds the values of the run's spec that a replica needs. They are equal on all peers.
type Run struct {
	ID           slot.Root
	InitRoot     slot.Root // root of the initial state; zero: the founder's choice
	Outer        outeropt.Config
	Params       allreduce.Params
	Fragments    []slot.Fragment // the parts that the vector is divided into, the largest first
	AuditSamples int             // of each segment, checked before HAVE; 0: none
	MaxStaleness uint64          // an offer's base may lie so many slots behind the newest anchor
}

// elements returns D, the length of the flat vector of parameters.
func (r Run) elements() (d uint64) {
	for _, n := range r.Params.Fragments {
		d += n
	}
	return d
}

// InitialRoot returns the root of the state that a run begins with where its initial parameters are
// those that fill writes.
func InitialRoot(outer outeropt.Config, elements uint64, fill func(anchor []float32) error) (slot.Root, error) {
	s, err := newState(outer, nil, &scratch{elements: elements})
	if err != nil {
		return slot.Root{}, err
	}
	vectors := s.vectors()
	if err := fill(vectors[0]); err != nil {
		return slot.Root{}, err
	}
	return checkpoint.StateRoot(checkpoint.Count{}, vectors...), nil
}

// model is the state, and the checkpoints and outcomes on disk that it can be made from. The chain
// of certified records says which of them may be used.
type model struct {
	run       Run
	state     *state
	scratch   *scratch // that the state is in
	store     *checkpoint.Store
	codec     codec.Codec // of outcomes
	room      []float32   // of decode: one fragment, where the codec is lossy
	certified func(height uint64) (wire.Commit, bool)
}

// openModel opens the store in dir. No state is held until restore has found one. files is the
// folder of the state's vectors, if they lie in files.
func openModel(run Run, dir, files string, cfg checkpoint.Config,
	certified func(height uint64) (wire.Commit, bool),
) (*model, error) {
	room := &scratch{fs: cfg.FS, dir: files, elements: run.elements()}
	s, err := newState(run.Outer, run.Fragments, room)
	if err != nil {
		return nil, err
	}
	_, out, err := run.Params.Codecs()
	if err != nil {
		return nil, err
	}
	m := &model{run: run, state: s, scratch: room, codec: out, certified: certified}
	cfg.Shape = checkpoint.Shape{Elements: run.elements(), Optimizer: len(s.outer.State())}
	cfg.FrameBytes = m.frameBytes()
	if m.store, err = checkpoint.Open(dir, cfg); err != nil {
		room.close()
	}
	return m, err
}

// close ends the use of the state. From now on none is held.
func (m *model) close() {
	m.state.mu.Lock()
	defer m.state.mu.Unlock()
	m.state.mu.held = false
	m.scratch.close()
}

// frameBytes returns the size of a whole frame of an outcome.
func (m *model) frameBytes() int { return m.codec.EncodedSize(m.run.Params.FrameElements) }

// restore takes up the newest checkpoint that the chain certifies and accept takes. The error is
// checkpoint.ErrNotHeld where there is none.
func (m *model) restore(accept func(checkpoint.Checkpoint) bool) error {
	return m.state.replace(func(vectors [][]float32) (Position, error) {
		c, err := m.store.LoadNewest(func(c checkpoint.Checkpoint) bool {
			root, ok := m.certifiedRoot(c.Height)
			return ok && root == c.Root && accept(c)
		}, vectors...)
		return Position{c.Height, m.recordAt(c.Height), c.Slot, c.Open, c.Root}, err
	})
}

// certifiedRoot returns the root of the state after height. The record after it names that root, or
// the height's own record does, if that is no step and left the state as it was.
func (m *model) certifiedRoot(height uint64) (slot.Root, bool) {
	if c, ok := m.certified(height + 1); ok {
		return c.Record.StateRoot, true
	}
	c, ok := m.certified(height)
	return c.Record.StateRoot, ok && c.Record.Kind != slot.Step
}

// certifiedOutcome returns the root of the outcome at a height.
func (m *model) certifiedOutcome(height uint64) (slot.Root, bool) {
	c, ok := m.certified(height)
	return c.Record.Outcome(), ok
}

// recordAt returns the hash of the chain's record at a height, or zero if there is none.
func (m *model) recordAt(height uint64) slot.Root {
	if height == 0 {
		return slot.Genesis(m.run.ID).Hash()
	}
	if c, ok := m.certified(height); ok {
		return c.Record.Hash()
	}
	return slot.Root{}
}

// gradient is the aggregated pseudo-gradient of a fragment, in parts.
type gradient [][]float32

// cut takes up to n elements from the front.
func (g *gradient) cut(n int) (part []float32) {
	part = (*g)[0][:min(n, len((*g)[0]))]
	if (*g)[0] = (*g)[0][len(part):]; len((*g)[0]) == 0 {
		*g = (*g)[1:]
	}
	return part
}

// copyFrom copies the elements from begin on to dst.
func (g gradient) copyFrom(begin int, dst []float32) {
	for _, part := range g {
		if begin < len(part) {
			n := copy(dst, part[begin:])
			dst, begin = dst[n:], len(part)
		}
		begin -= len(part)
	}
}

// decode gives the aggregated pseudo-gradient of a record. here are the segments that are in
// memory, which float32 is not copied from; the outcome is on disk. All peers decode the same
// bytes, those that reduced them included.
func (m *model) decode(record slot.Record, here []slot.Frames) (g gradient, err error) {
	for i, s := range record.Segments {
		var b []byte
		if i < len(here) {
			b = here[i].Bytes
		}
		if b == nil {
			outcome, err := m.store.Outcome(record.Height, record.Outcome())
			if err != nil {
				return nil, err
			}
			if b, err = outcome.Read(i); err != nil {
				return nil, err
			}
		}
		if m.room == nil && m.codec.Lossy() {
			m.room = make([]float32, m.run.Fragments[0].Elements()) // the largest
		}
		part, err := m.values(b, m.room, s.Range)
		if err != nil {
			return nil, fmt.Errorf("outcome of slot %d: %w", record.Slot, err)
		}
		g = append(g, part)
	}
	return g, nil
}

// values decodes a range of an outcome into its place in room, which float32 does not need.
func (m *model) values(b []byte, room []float32, r slot.Range) ([]float32, error) {
	if want := m.codec.EncodedSize(int(r.Len())); len(b) != want {
		return nil, fmt.Errorf("%d bytes where %d are due", len(b), want)
	}
	if !m.codec.Lossy() {
		return kernel.Float32s(b), nil
	}
	room = room[r.Begin:r.End]
	return room, m.codec.Decode(room, b)
}

var errUnreadable = errors.New("no values that an encoder writes: its owner has signed other bytes")

// readable says whether the bytes of an outcome are values that a mean of contributions can have.
// It reads what was not written ahead, on all cores. An error is a missingError with the segments
// that are not.
func (m *model) readable(segments []slot.Segment, data []slot.Frames, ahead *checkpoint.Begun) error {
	var next atomic.Int64
	bad := make([]bool, len(segments))
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(segments)) {
		wg.Go(func() {
			values := make([]float32, m.run.Params.FrameElements)
			for i := next.Add(1) - 1; i < int64(len(segments)); i = next.Add(1) - 1 {
				bad[i] = !m.readableSegment(segments[i].Range, data[i], values, ahead)
			}
		})
	}
	wg.Wait()
	var none missingError
	for i, s := range segments {
		if bad[i] {
			none.ranges = append(none.ranges, s.Range)
			none.error = fmt.Errorf("the outcome's elements %d to %d are %w", s.Range.Begin, s.Range.End, errUnreadable)
		}
	}
	if none.error == nil {
		return nil
	}
	return none
}

// readableSegment looks at the frames of a segment that were not written ahead. values is room for
// one.
func (m *model) readableSegment(r slot.Range, data slot.Frames, values []float32, ahead *checkpoint.Begun) bool {
	if len(data.Bytes) != m.codec.EncodedSize(int(r.Len())) {
		return false
	}
	at, hashes := r.Begin, data.Hashes // of each frame
	for frame := range slices.Chunk(data.Bytes, m.frameBytes()) {
		if !ahead.Has(int(at)/len(values), hashes[0]) && !m.readableFrame(frame, values, r.End-at) {
			return false
		}
		at, hashes = at+uint64(len(values)), hashes[1:]
	}
	return true
}

// readableFrame looks at a frame, the first of what is due. values is room for one.
func (m *model) readableFrame(b []byte, values []float32, due uint64) bool {
	due = min(due, uint64(len(values)))
	got, err := m.values(b, values, slot.Range{End: due})
	return err == nil && kernel.BoundedMean(got) < 0
}
