package checkpoint

import (
	"errors"
	"fmt"
	"io"

	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
)

// Load reads a checkpoint into vectors of the run's shape and verifies its root. After an error the vectors hold no
// state. A *CorruptError means that the file has been set aside.
func (s *Store) Load(c Checkpoint, vectors ...[]float32) error {
	if got := shapeOf(vectors); got != s.cfg.Shape {
		return fmt.Errorf("checkpoint: vectors of shape %v where this run has %v", got, s.cfg.Shape)
	}
	if !s.holds(c) {
		return notHeld(c.Root)
	}
	err := s.read(c, vectors)
	var corrupt *CorruptError
	if errors.As(err, &corrupt) {
		s.setAside(c.name(), corrupt)
	}
	return err
}

func (s *Store) read(c Checkpoint, vectors [][]float32) error {
	f, err := s.open(c.name())
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	defer f.Close()
	slotNumber, err := s.readHeader(f)
	if err != nil {
		return err
	}
	for _, v := range vectors {
		if err := readVector(f, v); err != nil {
			return fmt.Errorf("checkpoint: %s: %w", f.Name(), err)
		}
	}
	tree, root := treeOf(slotNumber, vectors)
	if root != c.Root {
		return &CorruptError{f.Name(), fmt.Sprintf("its bytes have root %s", root)}
	}
	s.add(c, tree)
	return nil
}

func readVector(r io.Reader, v []float32) error {
	if b, ok := kernel.View(v); ok {
		_, err := io.ReadFull(r, b)
		return err
	}
	buf := make([]byte, 4*min(len(v), 1<<18))
	for len(v) > 0 {
		n := min(len(v), len(buf)/4)
		if _, err := io.ReadFull(r, buf[:4*n]); err != nil {
			return err
		}
		kernel.GetFloat32s(v[:n], buf[:4*n])
		v = v[n:]
	}
	return nil
}

// LoadNewest loads the newest checkpoint that accept says is good (nil accepts all) and that can be read. Those that
// cannot are named in the log, and the one before is tried. ErrNotHeld is wrapped, with what went wrong on the way, when
// none is left.
func (s *Store) LoadNewest(accept func(Checkpoint) bool, vectors ...[]float32) (Checkpoint, error) {
	var faults []error
	for _, c := range s.List() {
		if accept != nil && !accept(c) {
			continue
		}
		err := s.Load(c, vectors...)
		if err == nil {
			return c, nil
		}
		s.log.Warn("cannot use a checkpoint, trying the one before", "height", c.Height, "slot", c.Slot, "error", err)
		faults = append(faults, err)
	}
	return Checkpoint{}, errors.Join(append(faults, fmt.Errorf("checkpoint: no usable state in %s: %w", s.dir, ErrNotHeld))...)
}
