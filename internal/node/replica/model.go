package replica

import (
	"fmt"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/internal/checkpoint"
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
	s, err := newState(outer, nil, elements)
	if err != nil {
		return slot.Root{}, err
	}
	vectors := s.vectors()
	if err := fill(vectors[0]); err != nil {
		return slot.Root{}, err
	}
	return checkpoint.StateRoot(0, vectors...), nil
}

// model is the state, and the checkpoints and outcomes on disk that it can be made from. The chain
// of certified records says which of them may be used.
type model struct {
	run       Run
	state     *state
	store     *checkpoint.Store
	codec     codec.Codec // of outcomes
	certified func(height uint64) (wire.Commit, bool)
}

// openModel opens the store in dir. No state is held until restore has found one.
func openModel(run Run, dir string, cfg checkpoint.Config,
	certified func(height uint64) (wire.Commit, bool),
) (*model, error) {
	s, err := newState(run.Outer, run.Fragments, run.elements())
	if err != nil {
		return nil, err
	}
	c, err := codec.New(run.Params.Codec)
	if err != nil {
		return nil, err
	}
	m := &model{run: run, state: s, codec: codec.Outcome(c), certified: certified}
	cfg.Shape = checkpoint.Shape{Elements: run.elements(), Optimizer: len(s.outer.State())}
	cfg.FrameBytes = m.frameBytes()
	m.store, err = checkpoint.Open(dir, cfg)
	return m, err
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
		return Position{c.Height, m.recordAt(c.Height), c.Slot, c.Root}, err
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

// decode fills grad with the aggregated pseudo-gradient of a record. The outcome is on disk. All
// peers decode the same bytes, those that reduced them included.
func (m *model) decode(record slot.Record, grad []float32) error {
	outcome, err := m.store.Outcome(record.Height, record.Outcome())
	if err != nil {
		return err
	}
	var b []byte
	for i, s := range record.Segments {
		if b, err = outcome.Read(i, b); err != nil {
			return err
		}
		if err = m.codec.Decode(grad[s.Range.Begin:s.Range.End], b); err != nil {
			return fmt.Errorf("outcome of slot %d: %w", record.Slot, err)
		}
	}
	return nil
}
