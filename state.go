package p2pdiloco

import (
	"fmt"
	"sync"

	"github.com/p2pdiloco/p2pdiloco/internal/checkpoint"
	"github.com/p2pdiloco/p2pdiloco/membership"
	"github.com/p2pdiloco/p2pdiloco/outeropt"
)

// state is what all peers of a run hold alike: the anchor and the outer optimizer's vectors, after the record at some height.
// Only the worker's state jobs change it, one at a time; everybody else reads copies.
type state struct {
	outer outeropt.Optimizer
	grad  []float32 // scratch of step

	mu struct {
		sync.RWMutex
		at     position
		held   bool
		anchor []float32
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
	s := &state{outer: outer}
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
	at, err := fill(s.vectors())
	if err != nil {
		return err
	}
	s.mu.at, s.mu.held = at, true
	return nil
}

// step does the outer step of the record at height with the gradient that decode fills in.
func (s *state) step(height uint64, record Root, slotNumber uint64, decode func(grad []float32) error) (position, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.follows(height); err != nil {
		return position{}, err
	}
	if s.grad == nil {
		s.grad = make([]float32, len(s.mu.anchor))
	}
	if err := decode(s.grad); err != nil {
		return position{}, err
	}
	s.outer.Step(s.mu.anchor, s.grad, outeropt.At{Step: slotNumber})
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
