package checkpoint

import (
	"fmt"
	"io"
	"sync"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Save makes the state after the record at height durable: the anchor, then the optimizer's vectors. It refuses vectors
// that do not have the root. Saving what is held already does nothing.
func (s *Store) Save(height, slotNumber uint64, root slot.Root, vectors ...[]float32) error {
	if got := shapeOf(vectors); got != s.cfg.Shape {
		return fmt.Errorf("checkpoint: state of shape %v where this run has %v", got, s.cfg.Shape)
	}
	c := Checkpoint{Height: height, Slot: slotNumber, Root: root, Size: s.cfg.Shape.Size()}
	if s.holds(c) {
		return nil
	}
	tree, err := s.writeState(c, vectors)
	if err != nil {
		return err
	}
	s.add(c, tree)
	return nil
}

// writeState hashes and writes the state side by side. The file gets its name only if the root is right.
func (s *Store) writeState(c Checkpoint, vectors [][]float32) (tree []byte, err error) {
	var got slot.Root
	var wg sync.WaitGroup
	wg.Go(func() { tree, got = treeOf(c.Slot, vectors) })
	defer wg.Wait()
	err = s.writeFile(c.name(), func(w io.Writer) error {
		for _, part := range encoding(c.Slot, vectors) {
			if _, err := w.Write(part); err != nil {
				return err
			}
		}
		wg.Wait()
		if got != c.Root {
			return fmt.Errorf("the state has root %s, not the one given: it changed while it was saved, or is not what was agreed", got)
		}
		return nil
	})
	return tree, err
}

func (s *Store) holds(c Checkpoint) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.mu.states[c.name()]
	return ok
}

func (s *Store) add(c Checkpoint, tree []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.states[c.name()] = c
	if tree != nil {
		s.mu.trees[c.Root] = tree
	}
}
