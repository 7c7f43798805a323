package checkpoint

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"lukechampine.com/blake3/bao"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/hashtree"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// AppendSlice appends the bytes [offset, offset+length) of the state with this root together with the tree hashes that
// VerifySlice needs: a bao slice. offset must be a multiple of GroupBytes; length too, unless the range ends the state.
func (s *Store) AppendSlice(dst []byte, root slot.Root, offset, length int64) ([]byte, error) {
	if err := checkRange(s.cfg.Shape.Size(), offset, length); err != nil {
		return dst, err
	}
	f, tree, err := s.openState(root)
	if err != nil {
		return dst, err
	}
	defer f.Close()
	w := bytes.NewBuffer(dst)
	err = bao.ExtractSlice(w, io.NewSectionReader(f, offset, length), bytes.NewReader(tree), groupLog, uint64(offset), uint64(length))
	if err != nil {
		return dst, fmt.Errorf("checkpoint: %s: %w", f.Name(), err)
	}
	slice := w.Bytes()[len(dst):]
	if err := s.checkSlice(slice, root, offset, length); err != nil {
		err := &CorruptError{f.Name(), err.Error()}
		s.setAside(filepath.Base(f.Name()), err)
		return dst, err
	}
	return w.Bytes(), nil
}

// checkSlice verifies a slice of ours before somebody else does: a file may rot after its tree was made, and whoever sends such
// bytes passes for a liar. It costs a quarter of a CPU second a GB.
func (s *Store) checkSlice(slice []byte, root slot.Root, offset, length int64) error {
	buf, _ := s.scratch.Get().(*[]byte)
	if buf == nil || int64(cap(*buf)) < length {
		b := make([]byte, length)
		buf = &b
	}
	defer s.scratch.Put(buf)
	return VerifySlice((*buf)[:length], slice, root, s.cfg.Shape.Size(), offset)
}

// openState opens the state with this root, whatever its height, and its tree.
func (s *Store) openState(root slot.Root) (disk.File, []byte, error) {
	c, tree, ok := s.find(root)
	if !ok {
		return nil, nil, notHeld(root)
	}
	f, err := s.open(c.name())
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) { // pruned since
			err = ErrNotHeld
		}
		return nil, nil, fmt.Errorf("checkpoint: state %s: %w", root.Short(), err)
	}
	if tree == nil {
		if tree, err = s.treeFor(c, f); err != nil {
			_ = f.Close()
			return nil, nil, err
		}
	}
	return f, tree, nil
}

func (s *Store) find(root slot.Root) (c Checkpoint, tree []byte, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.mu.states {
		if c.Root == root {
			s.touch(c.name())
			return c, s.mu.trees[root], true
		}
	}
	return Checkpoint{}, nil, false
}

// treeFor gives a state's tree, made once however many ask at the same time.
func (s *Store) treeFor(c Checkpoint, f disk.File) ([]byte, error) {
	s.making.Lock()
	defer s.making.Unlock()
	_, tree, ok := s.find(c.Root)
	if !ok { // found corrupt by who was here before
		return nil, notHeld(c.Root)
	}
	if tree != nil {
		return tree, nil
	}
	return s.makeTree(c, f)
}

func notHeld(root slot.Root) error {
	return fmt.Errorf("checkpoint: state %s: %w", root.Short(), ErrNotHeld)
}

// makeTree reads a state whose tree is not known yet: one that was listed or adopted but not loaded. It must not be
// served before it has been verified, or its readers would take this peer for a liar.
func (s *Store) makeTree(c Checkpoint, f disk.File) ([]byte, error) {
	tree, root, err := hashTree(fromFile(f), c.Size)
	if err != nil {
		return nil, fmt.Errorf("checkpoint: %s: %w", f.Name(), err)
	}
	if root != c.Root {
		err := &CorruptError{f.Name(), fmt.Sprintf("its bytes have root %s", root)}
		s.setAside(c.name(), err)
		return nil, err
	}
	s.add(c, tree)
	return tree, nil
}

// SliceSize is the exact number of bytes of a slice of a state of size bytes.
func SliceSize(size, offset, length int64) int64 {
	return 8 + length + 64*parents(0, size, offset, offset+length)
}

// parents counts the tree nodes over [pos, pos+n) that lead to the range [from, to).
func parents(pos, n, from, to int64) int64 {
	if n <= GroupBytes || pos >= to || from >= pos+n {
		return 0
	}
	mid := hashtree.Left(n)
	return 1 + parents(pos, mid, from, to) + parents(pos+mid, n-mid, from, to)
}

// VerifySlice checks a slice against the root of a state of size bytes and writes the range's bytes to dst, whose length
// is the range's. What a stranger sent may be given to it as it came.
func VerifySlice(dst, slice []byte, root slot.Root, size, offset int64) error {
	length := int64(len(dst))
	if err := checkRange(size, offset, length); err != nil {
		return err
	}
	if int64(len(slice)) != SliceSize(size, offset, length) {
		return fmt.Errorf("checkpoint: slice of %d bytes where %d are due", len(slice), SliceSize(size, offset, length))
	}
	// The length in front is the sender's; the tree's shape follows from it, so it must be the one we know.
	if got := binary.LittleEndian.Uint64(slice); got != uint64(size) {
		return fmt.Errorf("checkpoint: slice of a state of %d bytes, not %d", got, size)
	}
	w := bytes.NewBuffer(dst[:0])
	ok, err := bao.DecodeSlice(w, bytes.NewReader(slice), groupLog, uint64(offset), uint64(length), root)
	if err != nil {
		return fmt.Errorf("checkpoint: slice: %w", err)
	}
	if !ok {
		return fmt.Errorf("checkpoint: the bytes at %d do not belong to the state %s", offset, root.Short())
	}
	return nil
}

func checkRange(size, offset, length int64) error {
	if offset < 0 || length <= 0 || offset > size || length > size-offset || offset%GroupBytes != 0 ||
		length%GroupBytes != 0 && offset+length != size {
		return fmt.Errorf("checkpoint: range [%d, +%d) of a state of %d bytes", offset, length, size)
	}
	return nil
}
