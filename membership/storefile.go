package membership

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"net"
	"os"
	"path/filepath"
	"sync"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Names in the data directory.
const (
	logName  = "ledger.log"
	newName  = "ledger.log.new" // being written; never read
	lockName = "ledger.lock"
)

// compactAbove is the garbage, in bytes, that a log may carry whatever its size.
const compactAbove = 4 << 20

var errStoreClosed = fmt.Errorf("ledger store: %w", net.ErrClosed)

// FileStore keeps the ledger's log in one append-only file. It is safe for use by several goroutines.
type FileStore struct {
	path string
	fs   disk.FS
	lock io.Closer
	mu   struct {
		sync.Mutex
		file  disk.File
		end   int64
		sum   logSum
		state *ledgerState
		err   error // sticky: after a failed write nobody knows what is on disk
	}
}

// OpenStore opens the ledger's log in dir, or creates both; rand gives a new log its incarnation. Only one process at a time may
// have a directory open: another gets disk.ErrLocked. A torn end, left by a crash in the middle of a write, is cut off and
// logged; a log that is damaged elsewhere is refused with ErrStoreCorrupt, one of another run with ErrStoreRun.
func OpenStore(dir string, run slot.Root, rand io.Reader, logger *slog.Logger) (*FileStore, error) {
	return OpenStoreOn(disk.OS, dir, run, rand, logger)
}

// OpenStoreOn is OpenStore on another file system.
func OpenStoreOn(fsys disk.FS, dir string, run slot.Root, rand io.Reader, logger *slog.Logger) (*FileStore, error) {
	return openStore(fsys, dir, run, rand, logger, compactAbove)
}

func openStore(fsys disk.FS, dir string, run slot.Root, rand io.Reader, logger *slog.Logger, garbage int64) (*FileStore, error) {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	if err := disk.MakeDir(fsys, dir); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	lock, err := fsys.Lock(filepath.Join(dir, lockName))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	s := &FileStore{fs: fsys, path: filepath.Join(dir, logName), lock: lock}
	if err := s.open(run, rand, logger, garbage); err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

func (s *FileStore) open(run slot.Root, rand io.Reader, logger *slog.Logger, garbage int64) error {
	file, err := s.fs.OpenFile(s.path, os.O_RDWR)
	if errors.Is(err, fs.ErrNotExist) {
		return s.create(run, rand)
	}
	if err != nil {
		return err
	}
	s.mu.file = file
	if err := s.load(run, logger); err != nil {
		return err
	}
	return s.boot(garbage, logger)
}

// create makes the log of a new incarnation.
func (s *FileStore) create(run slot.Root, rand io.Reader) error {
	var inc [8]byte
	if _, err := io.ReadFull(rand, inc[:]); err != nil {
		return fmt.Errorf("random incarnation: %w", err)
	}
	s.mu.state = newLedgerState(run, slot.Incarnation(binary.BigEndian.Uint64(inc[:])))
	s.mu.state.boot = 1
	return s.rewrite()
}

// boot counts this opening, durably, and compacts the log where that makes it smaller by a third and more than garbage bytes.
func (s *FileStore) boot(garbage int64, logger *slog.Logger) error {
	s.mu.state.boot++
	if g := s.mu.state.garbage; g <= garbage || g < s.mu.end/3 {
		return s.append([]Entry{entryBoot{s.mu.state.boot}})
	}
	before := s.mu.end
	if err := s.mu.file.Close(); err != nil {
		return err
	}
	if err := s.rewrite(); err != nil {
		return fmt.Errorf("compact %s: %w", s.path, err)
	}
	logger.Info("compacted the ledger log", "file", s.path, "before", before, "after", s.mu.end)
	return nil
}

// rewrite puts a log holding just the present state in place of whatever is there: a crash leaves the old file or the new one.
func (s *FileStore) rewrite() error {
	dir := filepath.Dir(s.path)
	name := filepath.Join(dir, newName)
	file, err := s.fs.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	s.mu.file = file
	head, sum := appendHead(nil, s.mu.state.run, s.mu.state.inc)
	s.mu.end, s.mu.sum = int64(len(head)), sum
	if _, err := file.Write(head); err != nil {
		return err
	}
	var payload []byte
	for i, entries := 0, s.mu.state.compacted(); i < len(entries); i++ {
		payload = appendEntry(payload, entries[i])
		if len(payload) >= 1<<20 || i == len(entries)-1 {
			if err := s.write(payload); err != nil {
				return err
			}
			payload = payload[:0]
		}
	}
	if err := file.Sync(); err != nil {
		return err
	}
	if err := s.fs.Rename(name, s.path); err != nil {
		return err
	}
	s.mu.state.garbage = 0
	return s.fs.SyncDir(dir)
}

// write appends one frame in one write, without sync.
func (s *FileStore) write(payload []byte) error {
	if uint64(len(payload)) > math.MaxUint32 {
		return fmt.Errorf("%d bytes at once do not fit the ledger log", len(payload))
	}
	b, sum := appendFrame(make([]byte, 0, frameSize(int64(len(payload)))), s.mu.sum, payload)
	if _, err := s.mu.file.WriteAt(b, s.mu.end); err != nil {
		return err
	}
	s.mu.end, s.mu.sum = s.mu.end+int64(len(b)), sum
	return nil
}

func (s *FileStore) append(entries []Entry) error {
	var payload []byte
	for _, e := range entries {
		payload = appendEntry(payload, e)
	}
	if err := s.write(payload); err != nil {
		return err
	}
	return s.mu.file.Sync()
}

// Load implements Store: what is on disk now.
func (s *FileStore) Load() (Saved, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.err != nil {
		return Saved{}, s.mu.err
	}
	return s.mu.state.saved(), nil
}

// Save implements Store: one write and one sync for all entries, which are there wholly or not at all after a crash. The first
// error is final: what a failed write or sync left on disk is only known after opening again.
func (s *FileStore) Save(entries []Entry) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.err != nil || len(entries) == 0 {
		return s.mu.err
	}
	for _, e := range entries {
		if err := s.mu.state.apply(e); err != nil {
			s.mu.err = fmt.Errorf("%s: refused an entry: %w", s.path, err)
			return s.mu.err
		}
	}
	if err := s.append(entries); err != nil {
		s.mu.err = fmt.Errorf("%s: %w; free or repair the disk and start again", s.path, err)
	}
	return s.mu.err
}

// Close implements Store and gives the directory free. Calling it again does nothing.
func (s *FileStore) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if errors.Is(s.mu.err, errStoreClosed) {
		return nil
	}
	s.mu.err = errStoreClosed
	var err error
	if s.mu.file != nil {
		err = s.mu.file.Close()
	}
	return errors.Join(err, s.lock.Close())
}
