package checkpoint

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/failpoint"
	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Checkpoint is a state on disk: the one after the record at Height.
type Checkpoint struct {
	Height uint64
	Slot   uint64
	Open   uint64 // as in Count
	Root   slot.Root
	Size   int64 // bytes
}

// Count is what the state counts.
func (c Checkpoint) Count() Count { return Count{c.Slot, c.Open} }

func (c Checkpoint) name() string { return fileName(statePrefix, c.Height, c.Root) }

func newestFirst(a, b Checkpoint) int {
	return cmp.Or(cmp.Compare(b.Height, a.Height), slices.Compare(a.Root[:], b.Root[:]))
}

// stateFile is the file of a state.
type stateFile struct {
	Checkpoint
	tree atomic.Pointer[[]byte] // bao outboard; nil until the state was read or written whole
}

// states is the part of a store that keeps checkpoints.
type states struct {
	catalog[*stateFile]
	shape    Shape
	requests *requests
	making   sync.Mutex // held while a tree is made, which reads a whole state
}

// list returns the checkpoints, newest first.
func (s *states) list() []Checkpoint {
	var list []Checkpoint
	for _, c := range s.all() {
		list = append(list, c.Checkpoint)
	}
	slices.SortFunc(list, newestFirst)
	return list
}

func (s *states) holds(c Checkpoint) bool {
	_, ok := s.named(c.name())
	return ok
}

// find finds a file with the state of a root, of any height, and one whose tree is known if there
// is one.
func (s *states) find(root slot.Root) (c *stateFile, ok bool) {
	for _, file := range s.all() {
		if file.Root == root && (!ok || file.tree.Load() != nil) {
			c, ok = file, true
		}
	}
	return c, ok
}

// addFile takes the file of a state that has got its name into the list, with its tree if that is
// known.
func (s *states) addFile(c Checkpoint, tree []byte) {
	file := &stateFile{Checkpoint: c}
	if tree != nil {
		file.tree.Store(&tree)
	}
	s.add(c.name(), file)
}

// scan takes a file that is in the directory into the list.
func (s *states) scan(name string, height uint64, root slot.Root) error {
	f, err := s.folder.open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	count, err := s.readHeader(f)
	if err != nil {
		return err
	}
	s.addFile(Checkpoint{Height: height, Slot: count.Slot, Open: count.Open, Root: root, Size: s.shape.Size()}, nil)
	return nil
}

// readHeader checks the size and the header of a state file, and leaves f behind the header.
func (s *states) readHeader(f disk.File) (count Count, err error) {
	info, err := f.Stat()
	if err != nil {
		return Count{}, err
	}
	if info.Size() != s.shape.Size() {
		return Count{}, corrupt(f, "%d bytes where a state of this run has %d", info.Size(), s.shape.Size())
	}
	head := make([]byte, headerSize)
	if _, err := io.ReadFull(f, head); err != nil {
		return Count{}, err
	}
	shape, count, err := parseHeader(head)
	if err == nil && shape != s.shape {
		err = fmt.Errorf("shape %v where this run has %v", shape, s.shape)
	}
	if err != nil {
		return Count{}, corrupt(f, "%v", err)
	}
	return count, nil
}

// Written is a state whose bytes the system has. They are on disk, and the state is held, once it
// is published.
type Written struct {
	Checkpoint
	states *states
	tree   Tree
	file   disk.File // nil: the state is held already
}

func (w *Written) write(vectors [][]float32) error {
	folder := w.states.folder
	f, err := folder.begin(w.name())
	if err != nil {
		return err
	}
	err = folder.fill(f, w.name(), w.Size, func() error { return writeState(f, w.Count(), vectors) })
	if err == nil {
		w.file = f
	}
	return err
}

func writeState(f io.Writer, count Count, vectors [][]float32) error {
	parts := encoding(count, vectors)
	for i, part := range parts {
		if i == len(parts)-1 {
			failpoint.Here(failpoint.CheckpointHalf)
		}
		if _, err := f.Write(part); err != nil {
			return err
		}
	}
	return nil
}

// Drop removes what was written. Publish does not follow. A nil Written is nothing.
func (w *Written) Drop() {
	if w != nil && w.file != nil {
		w.states.folder.drop(w.file)
	}
}

// Publish makes the state durable. After an error it is gone.
func (w *Written) Publish() error {
	if w == nil || w.file == nil {
		return nil
	}
	if err := w.states.folder.publish(w.file, w.name()); err != nil {
		return err
	}
	w.states.addFile(w.Checkpoint, w.tree.nodes)
	return nil
}

// load reads a state and verifies its root.
func (s *states) load(c Checkpoint, vectors [][]float32) error {
	file, ok := s.named(c.name())
	if !ok {
		return notHeld(c.Root)
	}
	err := s.read(file, vectors)
	corrupt, ok := errors.AsType[*CorruptError](err)
	switch {
	case !ok:
	case s.folder.reused(c.name()):
		return notHeld(c.Root)
	default:
		s.setAside(c.name(), file, corrupt)
	}
	return err
}

func (s *states) read(c *stateFile, vectors [][]float32) error {
	f, err := s.folder.open(c.name())
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	defer f.Close()
	count, err := s.readHeader(f)
	if err != nil {
		return err
	}
	for _, v := range vectors {
		if _, err := io.ReadFull(f, kernel.Bytes(v)); err != nil {
			return fmt.Errorf("checkpoint: %s: %w", f.Name(), err)
		}
	}
	tree := TreeOf(count, vectors...)
	if tree.Root != c.Root {
		return corrupt(f, "its bytes have root %s", tree.Root)
	}
	c.tree.Store(&tree.nodes)
	return nil
}

// open opens the state with this root, whatever its height. Its tree is known then.
func (s *states) open(root slot.Root) (f disk.File, c *stateFile, err error) {
	c, ok := s.find(root)
	if !ok {
		return nil, nil, notHeld(root)
	}
	s.requests.note(c.name())
	f, err = s.folder.open(c.name())
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) { // pruned since, or somebody has removed it
			s.forget(c.name())
			err = ErrNotHeld
		}
		return nil, nil, fmt.Errorf("checkpoint: state %s: %w", root.Short(), err)
	}
	if err = s.makeTree(c, f); err != nil {
		_ = f.Close()
	}
	return f, c, err
}

// makeTree reads a state whose tree is not known yet: one that was listed or adopted but not
// loaded. Such a state has to be verified before it is served, because its readers would take this
// peer for a liar. When several callers ask for a tree at the same time, it is made once.
func (s *states) makeTree(c *stateFile, f disk.File) error {
	if c.tree.Load() != nil {
		return nil
	}
	s.making.Lock()
	defer s.making.Unlock()
	now, _ := s.named(c.name())
	switch {
	case now != c: // the caller before found it corrupt
		return notHeld(c.Root)
	case c.tree.Load() != nil:
		return nil
	}
	tree, got, err := hashTree(fromFile(f), c.Size)
	if err != nil {
		return fmt.Errorf("checkpoint: %s: %w", f.Name(), err)
	}
	if got != c.Root {
		err := corrupt(f, "its bytes have root %s", got)
		s.setAside(c.name(), c, err)
		return err
	}
	c.tree.Store(&tree)
	return nil
}
