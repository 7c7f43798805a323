package p2pdiloco

import (
	"fmt"
	"sync"

	"github.com/p2pdiloco/p2pdiloco/internal/checkpoint"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership"
	"github.com/p2pdiloco/p2pdiloco/outeropt"
)

// state is what all peers of a run hold alike: the anchor and the outer optimizer's vectors, after the record at some height.
// Only the worker's state jobs change it, one at a time; everybody else reads copies.
type state struct {
	outer     outeropt.Optimizer
	fragments []slot.Fragment
	grad      []float32 // scratch of step: of one fragment

	mu struct {
		sync.RWMutex
		at      position
		held    bool
		filling uint64 // how often the vectors were filled anew
		anchor  []float32
	}
}

// position says which state is held.
type position struct {
	height uint64 // of the newest record applied
	record Root   // its hash: which chain it is on
	slot   uint64 // outer steps done
	root   Root
}

func (p position) report() membership.ReportApplied {
	return membership.ReportApplied{Height: p.height, Record: p.record, Slot: p.slot, StateRoot: p.root}
}

func newState(spec Spec) (*state, error) {
	d := spec.Layout.Elements()
	outer, err := outeropt.New(spec.outer(), d)
	if err != nil {
		return nil, err
	}
	s := &state{outer: outer, fragments: spec.fragments()}
	s.mu.anchor = make([]float32, d)
	return s, nil
}

// vectors are the anchor and the optimizer's vectors, in the order of the state root. mu is held.
func (s *state) vectors() [][]float32 { return append([][]float32{s.mu.anchor}, s.outer.State()...) }

// replace fills the vectors anew and takes the position that fill returns. On an error nothing is held any more.
func (s *state) replace(fill func(vectors [][]float32) (position, error)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.held = false
	s.mu.filling++
	at, err := fill(s.vectors())
	if err != nil {
		return err
	}
	s.mu.at, s.mu.held = at, true
	return nil
}

// fragment is the part of the vectors that a slot updates.
func (s *state) fragment(slotNumber uint64) slot.Fragment {
	return s.fragments[slot.FragmentOf(slotNumber, uint64(len(s.fragments)))]
}

// step does the outer step of the record at height, on the slot's fragment, with the gradient that decode fills in. The optimizer is
// elementwise: the rest of its vectors stays as it is.
func (s *state) step(height uint64, record Root, slotNumber uint64, decode func(grad []float32) error) (position, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.follows(height); err != nil {
		return position{}, err
	}
	f := s.fragment(slotNumber)
	if s.grad == nil {
		s.grad = make([]float32, s.fragments[0].Elements()) // none is larger
	}
	grad := s.grad[:f.Elements()]
	if err := decode(grad); err != nil {
		return position{}, err
	}
	at := outeropt.At{Step: (slotNumber-1)/uint64(len(s.fragments)) + 1} // every one of them has had a slot a round
	for _, r := range f.Ranges {
		at.Offset = int(r.Begin)
		outerStep(s.outer, s.mu.anchor[r.Begin:r.End], grad[:r.Len()], at)
		grad = grad[r.Len():]
	}
	s.mu.at = position{height, record, slotNumber, checkpoint.StateRoot(slotNumber, s.vectors()...)}
	return s.mu.at, nil
}

// pass moves on by a record that changes no state.
func (s *state) pass(height uint64, record Root) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.follows(height); err != nil {
		return err
	}
	s.mu.at.height, s.mu.at.record = height, record
	return nil
}

func (s *state) follows(height uint64) error {
	if !s.mu.held || s.mu.at.height+1 != height {
		return fmt.Errorf("the state held (%v, after height %d) is not the one before height %d", s.mu.held, s.mu.at.height, height)
	}
	return nil
}

// position is the state held, if any.
func (s *state) position() (position, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.mu.at, s.mu.held
}

// copyAnchor copies the anchor into dst, D elements, and says which it is.
func (s *state) copyAnchor(dst []float32) position {
	s.mu.RLock()
	defer s.mu.RUnlock()
	copy(dst, s.mu.anchor)
	return s.mu.at
}

// read lends the vectors for reading; no step happens meanwhile.
func (s *state) read(f func(at position, vectors [][]float32) error) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if !s.mu.held {
		return fmt.Errorf("no state is held")
	}
	return f(s.mu.at, s.vectors())
}

// edition says which anchor a copy is of: after how many outer steps of which filling of the vectors.
type edition struct{ filling, slot uint64 }

// follows says whether e is another one's anchor some outer steps later, one of each fragment at most.
func (e edition) follows(other edition, fragments uint64) bool {
	return e.filling == other.filling && e.slot >= other.slot && e.slot-other.slot <= fragments
}

// copyOnward takes dst, D elements, from an edition of the anchor to the one held: it copies what has changed.
func (s *state) copyOnward(dst []float32, from edition) edition {
	s.mu.RLock()
	defer s.mu.RUnlock()
	now := edition{s.mu.filling, s.mu.at.slot}
	if !now.follows(from, uint64(len(s.fragments))) {
		copy(dst, s.mu.anchor)
		return now
	}
	for slotNumber := from.slot + 1; slotNumber <= now.slot; slotNumber++ {
		for _, r := range s.fragment(slotNumber).Ranges {
			copy(dst[r.Begin:r.End], s.mu.anchor[r.Begin:r.End])
		}
	}
	return now
}
