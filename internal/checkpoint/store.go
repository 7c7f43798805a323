package checkpoint

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"

	"lukechampine.com/blake3/bao"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Config is what a store needs to know of the run. Shape and FrameBytes must be given.
type Config struct {
	Shape      Shape
	FrameBytes int          // size of the frames that segment roots are made over (slot.FrameRoot)
	Logger     *slog.Logger // nil: silent
	FS         disk.FS      // nil: disk.OS
	ReadOnly   bool         // nothing in the directory is changed: another process may have it open
}

// Store is one directory of checkpoints and outcomes. One process may have it open.
type Store struct {
	folder   *folder
	states   *states
	outcomes *outcomes
	incoming *incoming
	requests *requests
	scratch  sync.Pool // of *[]byte
}

// Open opens a directory, making it if needed, removes what an interrupted write left, and lists
// the rest. Files that cannot be states or outcomes of this run are logged and set aside.
func Open(dir string, cfg Config) (*Store, error) {
	if err := cfg.Shape.Validate(); err != nil {
		return nil, err
	}
	if cfg.FrameBytes <= 0 {
		return nil, fmt.Errorf("checkpoint: frames of %d bytes", cfg.FrameBytes)
	}
	if cfg.FS == nil {
		cfg.FS = disk.OS
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	f, r := &folder{dir: dir, fs: cfg.FS, log: cfg.Logger, readOnly: cfg.ReadOnly}, &requests{}
	s := &Store{
		folder: f, requests: r, states: &states{shape: cfg.Shape, requests: r},
		outcomes: &outcomes{frameBytes: cfg.FrameBytes, requests: r},
	}
	s.states.folder, s.outcomes.folder = f, f
	s.incoming = &incoming{folder: f, states: s.states}
	f.anew = func() { s.states.forgetAll(); s.outcomes.forgetAll() }
	if !cfg.ReadOnly {
		if err := disk.MakeDir(f.fs, dir); err != nil {
			return nil, fmt.Errorf("checkpoint: %w: choose another data directory or make it writable", err)
		}
	}
	return s, s.scan()
}

// scan lists what is there. It first makes the names durable, because the process that gave them
// may have died before that.
func (s *Store) scan() error {
	if err := s.folder.fs.SyncDir(s.folder.dir); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	names, err := s.folder.names()
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := s.scanFile(name); err != nil {
			return fmt.Errorf("checkpoint: %w", err)
		}
	}
	return nil
}

// scanFile takes one file into the store. It leaves foreign files alone.
func (s *Store) scanFile(name string) (err error) {
	if strings.HasPrefix(name, tempPrefix) {
		if s.folder.readOnly {
			return nil // it may be being written
		}
		s.folder.log.Info("removing a file that was never finished", "file", name)
		return s.folder.fs.Remove(s.folder.path(name))
	}
	kind, height, root, ok := parseFileName(name)
	if !ok {
		return nil
	}
	switch kind {
	case statePrefix:
		err = s.states.scan(name, height, root)
	case outcomePrefix:
		err = s.outcomes.scan(name, height, root)
	}
	corrupt, isCorrupt := errors.AsType[*CorruptError](err)
	switch {
	case isCorrupt && s.folder.reused(name):
		return nil
	case isCorrupt:
		s.folder.setAside(name, corrupt)
		return nil
	case s.folder.readOnly && errors.Is(err, os.ErrNotExist):
		return nil // pruned since it was listed
	}
	return err
}

// Close removes the file that was begun, and those that were kept to be written again. Nothing is
// written after it.
func (s *Store) Close() error {
	if f, _ := s.outcomes.begun.Load().detach(); f != nil {
		s.folder.drop(f)
	}
	return s.folder.removeSpare()
}

// FrameBytes is the size of the frames that segment roots are made over.
func (s *Store) FrameBytes() int { return s.outcomes.frameBytes }

// Shape is the shape of the run's states.
func (s *Store) Shape() Shape { return s.states.shape }

// List returns the checkpoints held, newest first. Their headers have been read, but not their
// vectors: Load checks those.
func (s *Store) List() []Checkpoint { return s.states.list() }

// Save makes the state after the record at height durable: the anchor, then the optimizer's
// vectors. It refuses vectors that do not have the root. If the state is held already, it does
// nothing.
func (s *Store) Save(height uint64, count Count, root slot.Root, vectors ...[]float32) error {
	if got := shapeOf(vectors); got != s.Shape() {
		return fmt.Errorf("checkpoint: state of shape %v where this run has %v", got, s.Shape())
	}
	tree := TreeOf(count, vectors...)
	if tree.Root != root {
		return fmt.Errorf("checkpoint: the state has root %s, not %s: it is not what was agreed", tree.Root, root)
	}
	w, err := s.Write(height, count, tree, vectors...)
	if err != nil {
		return err
	}
	return w.Publish()
}

// Write begins to save a state that has this tree: what is written is not hashed once more. The
// vectors may change when it returns. A state that is held already is not written.
func (s *Store) Write(height uint64, count Count, tree Tree, vectors ...[]float32) (*Written, error) {
	w := &Written{
		states: s.states, tree: tree,
		Checkpoint: Checkpoint{
			Height: height, Slot: count.Slot, Open: count.Open, Root: tree.Root, Size: s.Shape().Size(),
		},
	}
	if s.states.holds(w.Checkpoint) {
		return w, nil
	}
	return w, w.write(vectors)
}

// Load reads a checkpoint into vectors of the run's shape and verifies its root. After an error the
// vectors hold no state. A *CorruptError means that the file has been set aside.
func (s *Store) Load(c Checkpoint, vectors ...[]float32) error {
	if got := shapeOf(vectors); got != s.Shape() {
		return fmt.Errorf("checkpoint: vectors of shape %v where this run has %v", got, s.Shape())
	}
	return s.states.load(c, vectors)
}

// LoadNewest loads the newest checkpoint that accept returns true for (nil accepts all) and that
// can be read. If a checkpoint cannot be read, it logs that and tries the one before. If none is
// left, it returns an error that wraps ErrNotHeld and all faults on the way.
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
		if errors.Is(err, context.Canceled) { // nobody wants it any more (disk.FSUntil)
			return Checkpoint{}, err
		}
		s.folder.log.Warn("cannot use a checkpoint, trying the one before", "height", c.Height, "slot", c.Slot,
			"error", err)
		faults = append(faults, err)
	}
	return Checkpoint{}, errors.Join(append(faults,
		fmt.Errorf("checkpoint: no usable state in %s: %w", s.folder.dir, ErrNotHeld))...)
}

// AppendSlice appends the bytes [offset, offset+length) of the state with this root together with
// the tree hashes that VerifySlice needs: a bao slice. offset must be a multiple of GroupBytes;
// length too, unless the range ends the state.
func (s *Store) AppendSlice(dst []byte, root slot.Root, offset, length int64) ([]byte, error) {
	if err := checkRange(s.Shape().Size(), offset, length); err != nil {
		return dst, err
	}
	f, c, err := s.states.open(root)
	if err != nil {
		return dst, err
	}
	defer f.Close()
	w := bytes.NewBuffer(dst)
	err = bao.ExtractSlice(w, io.NewSectionReader(f, offset, length), bytes.NewReader(*c.tree.Load()), groupLog,
		uint64(offset), uint64(length))
	if err != nil {
		return dst, fmt.Errorf("checkpoint: %s: %w", f.Name(), err)
	}
	slice := w.Bytes()[len(dst):]
	if err := s.checkSlice(slice, root, offset, length); err != nil {
		err := corrupt(f, "%v", err)
		s.states.setAside(c.name(), c, err)
		return dst, err
	}
	return w.Bytes(), nil
}

// checkSlice verifies an own slice before another peer does. A file may rot after its tree was
// made, and a peer that sends such bytes passes for a liar. The check costs a quarter of a CPU
// second for each GB.
func (s *Store) checkSlice(slice []byte, root slot.Root, offset, length int64) error {
	buf, _ := s.scratch.Get().(*[]byte)
	if buf == nil || int64(cap(*buf)) < length {
		b := make([]byte, length)
		buf = &b
	}
	defer s.scratch.Put(buf)
	return VerifySlice((*buf)[:length], slice, root, s.Shape().Size(), offset)
}

// Create starts a file for the state that c describes, or takes up the one that was kept. Its size
// is the shape's. Create removes what was kept of another state: one state at a time is fetched.
func (s *Store) Create(c Checkpoint) (*Partial, error) {
	c.Size = s.Shape().Size()
	return s.incoming.create(c)
}

// Begun tells whether this process has begun a file for this state and kept it.
func (s *Store) Begun(c Checkpoint) bool { return s.incoming.begun(c) }

// PutOutcome makes the outcome of a step at this height durable: all bytes of all its segments. It
// refuses a segment whose hashes do not make the root. That they are those of the bytes is for the
// caller to know.
// Several outcomes of one height may be held (those of several ballots). If the outcome is held
// already, it does nothing.
func (s *Store) PutOutcome(height uint64, segments []slot.Segment, data []slot.Frames) error {
	root := slot.OutcomeRoot(segments)
	if s.HasOutcome(height, root) {
		return nil
	}
	return s.outcomes.put(&Outcome{
		Height: height, Root: root, Segments: segments, in: s.outcomes,
		name: fileName(outcomePrefix, height, root), frameBytes: s.FrameBytes(),
	}, data)
}

// HasOutcome tells whether the outcome of this height is held. Its bytes are checked when they are
// read.
func (s *Store) HasOutcome(height uint64, root slot.Root) bool {
	_, held := s.outcomes.named(fileName(outcomePrefix, height, root))
	return held
}

// Outcome gives access to an outcome that is held. Otherwise the error wraps ErrNotHeld.
func (s *Store) Outcome(height uint64, root slot.Root) (*Outcome, error) {
	o, held := s.outcomes.named(fileName(outcomePrefix, height, root))
	if !held {
		return nil, fmt.Errorf("checkpoint: outcome %s of height %d: %w", root.Short(), height, ErrNotHeld)
	}
	return o, nil
}

// Segment opens a segment to serve it to another peer, frame by frame: Prune spares it then. If it
// is not held, the error wraps ErrNotHeld. The caller closes it.
func (s *Store) Segment(root slot.Root) (*SegmentReader, error) {
	return s.outcomes.segment(root, true)
}

// OwnSegment opens a segment for this peer's own use; else it is like Segment.
func (s *Store) OwnSegment(root slot.Root) (*SegmentReader, error) {
	return s.outcomes.segment(root, false)
}
