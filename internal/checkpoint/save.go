package checkpoint

import (
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
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

// Partial is a state on its way in, written in any order. It must end with Adopt or Discard.
type Partial struct {
	s *Store
	f disk.File
	c Checkpoint
}

// Create starts a temporary file for the state that c describes; its size is the shape's.
func (s *Store) Create(c Checkpoint) (*Partial, error) {
	c.Size = s.cfg.Shape.Size()
	f, err := s.fs.CreateTemp(s.dir, tempPrefix+"*")
	if err != nil {
		return nil, s.diskError(c.name(), err)
	}
	if err := f.Truncate(c.Size); err != nil {
		s.discard(f)
		return nil, s.diskError(c.name(), err)
	}
	return &Partial{s, f, c}, nil
}

// WriteAt writes bytes that the caller has verified against the root. Calls may overlap in time.
func (p *Partial) WriteAt(b []byte, off int64) (int, error) {
	n, err := p.f.WriteAt(b, off)
	if err != nil {
		return n, p.s.diskError(p.c.name(), err)
	}
	return n, nil
}

// Adopt makes the complete file a checkpoint, durably. Load verifies it once more, like any other. On an error the file is gone.
func (p *Partial) Adopt() (Checkpoint, error) {
	if err := p.checkHeader(); err != nil {
		p.s.discard(p.f)
		return Checkpoint{}, err
	}
	if err := p.s.publish(p.f, p.c.name()); err != nil {
		return Checkpoint{}, err
	}
	p.s.add(p.c, nil)
	return p.c, nil
}

func (p *Partial) checkHeader() error {
	f, err := p.s.fs.OpenFile(p.f.Name(), os.O_RDONLY)
	if err != nil {
		return p.s.diskError(p.c.name(), err)
	}
	defer f.Close()
	slotNumber, err := p.s.readHeader(f)
	if err == nil && slotNumber != p.c.Slot {
		err = fmt.Errorf("checkpoint: the state %s is the one of slot %d, not %d", p.c.Root, slotNumber, p.c.Slot)
	}
	return err
}

// Discard gives the file up.
func (p *Partial) Discard() { p.s.discard(p.f) }
