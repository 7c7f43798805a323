package replica

import (
	"cmp"
	"errors"
	"fmt"
	"sync"

	"github.com/p2pdiloco/p2pdiloco/internal/checkpoint"
	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership"
	"github.com/p2pdiloco/p2pdiloco/outeropt"
)

// state is equal on all peers of a run: the anchor and the outer optimizer's vectors, after the
// record at some height. Only the state jobs change it, one at a time; all others read copies.
type state struct {
	cfg       outeropt.Config
	outer     *outeropt.Optimizer
	fragments []slot.Fragment

	mu struct {
		sync.RWMutex
		at         Position
		held       bool
		tree       checkpoint.Tree // that a step gave; of another state after replace
		generation uint64          // how often the vectors were filled anew
		anchor     []float32
	}
}

// Position says which state is held.
type Position struct {
	Height uint64    // of the newest record applied
	Record slot.Root // the hash of that record, which says which branch of the chain it is on
	Slot   uint64    // outer steps done
	Open   uint64    // as in checkpoint.Count
	Root   slot.Root // of the state
}

func (p Position) count() checkpoint.Count { return checkpoint.Count{Slot: p.Slot, Open: p.Open} }

// Report returns the position as a report to the ledger.
func (p Position) Report() membership.ReportApplied {
	return membership.ReportApplied{Height: p.Height, Record: p.Record, Slot: p.Slot, StateRoot: p.Root}
}

// newState makes a state, which is not held yet, with its vectors in room.
func newState(outer outeropt.Config, fragments []slot.Fragment, room *scratch) (*state, error) {
	s := &state{cfg: outer, fragments: fragments}
	var err error
	if s.outer, err = outeropt.NewIn(outer, room.elements, room.vector); err != nil {
		return nil, err
	}
	s.mu.anchor, err = room.vector()
	return s, err
}

// vectors returns the anchor and the optimizer's vectors, in the order of the state root. mu is
// held.
func (s *state) vectors() [][]float32 { return append([][]float32{s.mu.anchor}, s.outer.State()...) }

// replace fills the vectors anew and takes the position that fill returns. After an error no state
// is held.
func (s *state) replace(fill func(vectors [][]float32) (Position, error)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.held = false
	s.mu.generation++
	at, err := fill(s.vectors())
	if err != nil {
		return err
	}
	s.mu.at, s.mu.held = at, true
	return nil
}

// fragment returns the part of the vectors that a slot updates.
func (s *state) fragment(slotNumber uint64) slot.Fragment {
	return s.fragments[slot.FragmentOf(slotNumber, uint64(len(s.fragments)))]
}

// step does the outer step of a record on its slot's fragment, with the gradient that decode gives.
// The optimizer is elementwise, so the rest of its vectors stays as it is.
func (s *state) step(record slot.Record, decode func() (gradient, error)) (Position, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.follows(record.Height); err != nil {
		return Position{}, err
	}
	f := s.fragment(record.Slot)
	grad, err := decode()
	if err != nil {
		return Position{}, err
	}
	// Every fragment has had one slot in each round before this one.
	at := outeropt.At{
		Step:          (record.Slot-1)/uint64(len(s.fragments)) + 1,
		Contributions: uint64(len(record.Contributions)), Open: s.mu.at.Open,
	}
	for _, r := range f.Ranges {
		for at.Offset = int(r.Begin); at.Offset < int(r.End); {
			part := grad.cut(int(r.End) - at.Offset)
			outeropt.Step(s.outer, s.mu.anchor[at.Offset:][:len(part)], part, at)
			at.Offset += len(part)
		}
	}
	s.mu.at = Position{Height: record.Height, Record: record.Hash(), Slot: record.Slot, Open: s.cfg.OpenAfter(at)}
	s.mu.tree = checkpoint.TreeOf(s.mu.at.count(), s.vectors()...)
	s.mu.at.Root = s.mu.tree.Root
	return s.mu.at, nil
}

// pass takes in a record that changes no state.
func (s *state) pass(record slot.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.follows(record.Height); err != nil {
		return err
	}
	s.mu.at.Height, s.mu.at.Record = record.Height, record.Hash()
	return nil
}

func (s *state) follows(height uint64) error {
	if !s.mu.held || s.mu.at.Height+1 != height {
		return fmt.Errorf("the state held (%v, after height %d) is not the one before height %d", s.mu.held,
			s.mu.at.Height, height)
	}
	return nil
}

// position returns the position of the state held, if there is one.
func (s *state) position() (Position, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.mu.at, s.mu.held
}

// damage changes the anchor without a step.
func (s *state) damage(change func(anchor []float32)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s.mu.anchor)
}

// treeOf is the tree of the state at a position. It is for who reads.
func (s *state) treeOf(at Position, vectors [][]float32) checkpoint.Tree {
	if s.mu.tree.Root == at.Root {
		return s.mu.tree
	}
	return checkpoint.TreeOf(at.count(), vectors...)
}

// read lends the vectors for reading. No step happens meanwhile.
func (s *state) read(f func(at Position, vectors [][]float32) error) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if !s.mu.held {
		return errors.New("no state is held")
	}
	return f(s.mu.at, s.vectors())
}

// Edition says which anchor a copy is of. The zero value is of none.
type Edition struct {
	generation uint64 // of the vectors: how often they were filled anew
	Slot       uint64 // outer steps done
	Root       slot.Root
}

// Follows says whether e is another edition's anchor some outer steps later, of which each fragment
// has had one at most. Only those fragments then differ.
func (e Edition) Follows(other Edition, fragments uint64) bool {
	return e.generation == other.generation && e.Slot >= other.Slot && e.Slot-other.Slot <= fragments
}

// copyOnward takes dst, D elements, from an edition of the anchor to the one held. It copies only
// what has changed, and nothing where no state is held.
func (s *state) copyOnward(dst []float32, from Edition) Edition {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if !s.mu.held {
		return from
	}
	now := Edition{s.mu.generation, s.mu.at.Slot, s.mu.at.Root}
	if !now.Follows(from, uint64(len(s.fragments))) {
		copy(dst, s.mu.anchor)
		return now
	}
	for slotNumber := from.Slot + 1; slotNumber <= now.Slot; slotNumber++ {
		for _, r := range s.fragment(slotNumber).Ranges {
			copy(dst[r.Begin:r.End], s.mu.anchor[r.Begin:r.End])
		}
	}
	return now
}

// scratch makes the vectors of a state. With a folder they lie in files there, which are nobody's
// after the process: a state comes from a checkpoint and outcomes, and never from them.
type scratch struct {
	fs       disk.FS // disk.OS if nil
	dir      string  // empty: the vectors are in memory alone
	elements uint64
	free     []func()
}

func (s *scratch) vector() ([]float32, error) {
	if s.dir == "" {
		return make([]float32, s.elements), nil
	}
	b, free, err := cmp.Or(s.fs, disk.OS).Scratch(s.dir, 4*int(s.elements))
	if err != nil {
		return nil, err
	}
	s.free = append(s.free, free)
	return kernel.Float32s(b), nil
}

// close gives the files' room back. Nobody reads the vectors any more.
func (s *scratch) close() {
	for _, free := range s.free {
		free()
	}
}
