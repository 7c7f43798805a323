package checkpoint

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// ErrNotHeld is wrapped when a state, outcome or segment is not in the store.
var ErrNotHeld = errors.New("not held on disk")

// CorruptError says that a file's bytes are not what its name promises. The file has been set aside.
type CorruptError struct {
	Path string // as it was when it was read
	Why  string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("%s is torn or corrupt: %s (set aside as %s%s)", e.Path, e.Why, filepath.Base(e.Path), corruptSuffix)
}

const (
	statePrefix   = "state"
	outcomePrefix = "outcome"
	corruptSuffix = ".corrupt"
)

// Config is what a store needs to know of the run. Shape and FrameBytes must be given.
type Config struct {
	Shape      Shape
	FrameBytes int          // bytes of a frame, over which segment roots are made (slot.FrameRoot)
	Logger     *slog.Logger // silent if nil
	FS         disk.FS      // disk.OS if nil
	ReadOnly   bool         // nothing in the directory is changed: another process may have it open
}

// Checkpoint is a state on disk: the one after the record at Height.
type Checkpoint struct {
	Height uint64
	Slot   uint64
	Root   slot.Root
	Size   int64 // bytes
}

func (c Checkpoint) name() string { return fileName(statePrefix, c.Height, c.Root) }

// Store is one directory of checkpoints and outcomes. One process may have it open.
type Store struct {
	dir     string
	cfg     Config
	log     *slog.Logger
	fs      disk.FS
	scratch sync.Pool  // of *[]byte
	making  sync.Mutex // held, over reading a whole state, by who makes a tree: once is enough

	mu struct {
		sync.Mutex
		states   map[string]Checkpoint   // by file name
		trees    map[slot.Root][]byte    // bao outboard of a state that was read or written whole
		outcomes map[string]*outcomeFile // by file name
		segments map[slot.Root]segmentAt // of the outcomes
		asked    map[string]time.Time    // when somebody last fetched from a file, by its name
		partial  string                  // file of the state on its way in, while it is open
	}
}

// Open opens a directory, making it if needed, removes what an interrupted write left, and lists the rest. Files that
// cannot be states or outcomes of this run are logged and set aside.
func Open(dir string, cfg Config) (*Store, error) {
	if err := cfg.Shape.Validate(); err != nil {
		return nil, err
	}
	if cfg.FrameBytes <= 0 {
		return nil, fmt.Errorf("checkpoint: frames of %d bytes", cfg.FrameBytes)
	}
	s := &Store{dir: dir, cfg: cfg, log: cfg.Logger, fs: cfg.FS}
	if s.fs == nil {
		s.fs = disk.OS
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.mu.states = map[string]Checkpoint{}
	s.mu.trees = map[slot.Root][]byte{}
	s.mu.outcomes = map[string]*outcomeFile{}
	s.mu.asked = map[string]time.Time{}
	if cfg.ReadOnly {
		return s, s.scan()
	}
	if err := disk.MakeDir(s.fs, dir); err != nil {
		return nil, fmt.Errorf("checkpoint: %w: choose another data directory or make it writable", err)
	}
	return s, s.scan()
}

// open opens a file of the store for reading.
func (s *Store) open(name string) (disk.File, error) {
	return s.fs.OpenFile(filepath.Join(s.dir, name), os.O_RDONLY)
}

// scan lists what is there. The names are made durable first: who gave them may have died before that.
func (s *Store) scan() error {
	if err := s.fs.SyncDir(s.dir); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	entries, err := s.fs.ReadDir(s.dir)
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	for _, e := range entries {
		if err := s.scanFile(e.Name()); err != nil {
			return fmt.Errorf("checkpoint: %w", err)
		}
	}
	s.reindex()
	return nil
}

// scanFile takes one file into the store. Files of others are left alone.
func (s *Store) scanFile(name string) (err error) {
	if strings.HasPrefix(name, tempPrefix) {
		if s.cfg.ReadOnly {
			return nil // it may be being written
		}
		s.log.Info("removing a file that was never finished", "file", name)
		return s.fs.Remove(filepath.Join(s.dir, name))
	}
	kind, height, root, ok := parseFileName(name)
	if !ok {
		return nil
	}
	switch kind {
	case statePrefix:
		err = s.scanState(name, height, root)
	case outcomePrefix:
		err = s.scanOutcome(name, height, root)
	}
	var corrupt *CorruptError
	switch {
	case errors.As(err, &corrupt):
		s.setAside(name, corrupt)
		return nil
	case s.cfg.ReadOnly && errors.Is(err, os.ErrNotExist):
		return nil // pruned since it was listed
	}
	return err
}

func (s *Store) scanState(name string, height uint64, root slot.Root) error {
	f, err := s.open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	slotNumber, err := s.readHeader(f)
	if err != nil {
		return err
	}
	s.mu.states[name] = Checkpoint{Height: height, Slot: slotNumber, Root: root, Size: s.cfg.Shape.Size()}
	return nil
}

// readHeader checks a state file's size and header, and leaves f behind the header.
func (s *Store) readHeader(f disk.File) (slotNumber uint64, err error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	if info.Size() != s.cfg.Shape.Size() {
		return 0, &CorruptError{f.Name(), fmt.Sprintf("%d bytes where a state of this run has %d", info.Size(), s.cfg.Shape.Size())}
	}
	head := make([]byte, headerSize)
	if _, err := io.ReadFull(f, head); err != nil {
		return 0, err
	}
	shape, slotNumber, err := parseHeader(head)
	if err == nil && shape != s.cfg.Shape {
		err = fmt.Errorf("shape %v where this run has %v", shape, s.cfg.Shape)
	}
	if err != nil {
		return 0, &CorruptError{f.Name(), err.Error()}
	}
	return slotNumber, nil
}

// setAside takes a corrupt file out of the store. It stays on disk, for a person to look at, until the next Prune.
func (s *Store) setAside(name string, why *CorruptError) {
	s.log.Error("a file is torn or corrupt and is not used", "file", why.Path, "why", why.Why)
	path := filepath.Join(s.dir, name)
	if s.cfg.ReadOnly {
		s.forget(name)
		return
	}
	if err := s.fs.Rename(path, path+corruptSuffix); err != nil {
		s.log.Error("cannot set a corrupt file aside: remove it by hand", "file", path, "error", err)
	}
	s.forget(name)
}

// forget takes a file out of the lists.
func (s *Store) forget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.trees, s.mu.states[name].Root)
	delete(s.mu.states, name)
	if _, ok := s.mu.outcomes[name]; ok {
		delete(s.mu.outcomes, name)
		s.reindexLocked()
	}
}

// List gives the checkpoints held, newest first. Their headers have been read, their vectors not: Load checks those.
func (s *Store) List() []Checkpoint {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]Checkpoint, 0, len(s.mu.states))
	for _, c := range s.mu.states {
		list = append(list, c)
	}
	slices.SortFunc(list, newestFirst)
	return list
}

func newestFirst(a, b Checkpoint) int {
	return cmp.Or(cmp.Compare(b.Height, a.Height), slices.Compare(a.Root[:], b.Root[:]))
}

// FrameBytes is the size of the frames that segment roots are made over.
func (s *Store) FrameBytes() int { return s.cfg.FrameBytes }

// Shape is the shape of the run's states.
func (s *Store) Shape() Shape { return s.cfg.Shape }

func fileName(kind string, height uint64, root slot.Root) string {
	return fmt.Sprintf("%s-%020d-%s", kind, height, root)
}

// parseFileName reads what fileName wrote, and nothing else.
func parseFileName(name string) (kind string, height uint64, root slot.Root, ok bool) {
	part := strings.Split(name, "-")
	if len(part) != 3 {
		return "", 0, slot.Root{}, false
	}
	height, err := strconv.ParseUint(part[1], 10, 64)
	if err != nil {
		return "", 0, slot.Root{}, false
	}
	if b, err := hex.DecodeString(part[2]); err == nil && len(b) == len(root) {
		root = slot.Root(b)
	}
	return part[0], height, root, fileName(part[0], height, root) == name
}
