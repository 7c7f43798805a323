package store

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
	"slices"
	"sync"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/failpoint"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// compactAbove is the garbage, in bytes, that a log of any size may carry when it is opened, and
// compactLive what it may carry when records have just been forgotten. The log of a peer that
// forgets none is not compacted while it runs: that could take long.
const (
	compactAbove = 4 << 20
	compactLive  = 512 << 10
)

var errClosed = fmt.Errorf("ledger store: %w", net.ErrClosed)

// File is an open log. It implements membership.Store, and several goroutines may use it.
type File struct {
	path string
	fs   disk.FS
	lock io.Closer
	live int64 // garbage above which the log is compacted while it is open
	mu   struct {
		sync.Mutex
		file  disk.File
		end   int64
		sum   logSum
		state *state
		err   error // final: after a failed write nobody knows what is on disk
	}
}

// Open opens the log of the ledger in a directory of a file system, and creates the directory and
// the log if they are missing. rand gives a new log its incarnation. Only one process at a time may
// have a directory open; another one gets disk.ErrLocked. A crash in the middle of a write leaves a
// torn end, which is cut off and logged. A log that is damaged elsewhere is refused with
// ErrCorrupt, a log of another run with ErrRun.
//
// reached is the height up to which other files show that this peer has had records: it made these
// files after the records were in the log. A log that never had one there has lost its end, or is
// an old copy, and is refused with ErrCorrupt. A log that is made takes such files for those of a
// log before it.
func Open(fsys disk.FS, dir string, run slot.Root, reached uint64, rand io.Reader, logger *slog.Logger) (*File,
	error,
) {
	return openWith(fsys, dir, run, reached, rand, logger, compactAbove)
}

func openWith(fsys disk.FS, dir string, run slot.Root, reached uint64, rand io.Reader, logger *slog.Logger,
	garbage int64,
) (*File, error) {
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
	s := &File{fs: fsys, path: filepath.Join(dir, logName), lock: lock, live: min(compactLive, garbage)}
	if err := s.open(run, reached, rand, logger, garbage); err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

func (s *File) open(run slot.Root, reached uint64, rand io.Reader, logger *slog.Logger, garbage int64) error {
	file, err := s.fs.OpenFile(s.path, os.O_RDWR)
	if errors.Is(err, fs.ErrNotExist) {
		return s.create(run, reached, rand)
	}
	if err != nil {
		return err
	}
	s.mu.file = file
	if err := s.load(run, reached, logger); err != nil {
		return err
	}
	return s.boot(garbage, logger)
}

// load reads the log, cuts off a torn end, and makes the rest durable.
func (s *File) load(run slot.Root, reached uint64, logger *slog.Logger) error {
	info, err := s.mu.file.Stat()
	if err != nil {
		return err
	}
	log, err := readHead(s.path, s.mu.file, info.Size(), run)
	if err != nil {
		return err
	}
	torn, err := log.replay()
	if err != nil {
		return err
	}
	at := log.frames.at
	if peak := log.state.peak; reached > peak {
		return damaged(s.path, at, fmt.Errorf("%w: its last record is of height %d, and files beside it are of height "+
			"%d: its end is missing, or it is an old copy", ErrCorrupt, peak, reached))
	}
	if torn {
		logger.Warn("cut off the torn end of the ledger log: the last write before a crash or power cut",
			"file", s.path, "offset", at, "bytes", info.Size()-at)
		if err := s.mu.file.Truncate(at); err != nil {
			return fmt.Errorf("%s: cut off the torn end: %w", s.path, err)
		}
	}
	s.mu.end, s.mu.sum, s.mu.state = at, log.frames.sum, log.state
	return s.settle(log.frames.last)
}

// settle makes durable what was read. The process before may have died between a write and its
// sync, or after a sync that failed. The kernel then shows bytes that are not on the disk, and
// after a failed sync it takes them for written. This can be true of the last frame only, so the
// last frame is written again. The same holds for the name of the log.
func (s *File) settle(last []byte) error {
	if _, err := s.mu.file.WriteAt(last, s.mu.end-int64(len(last))); err != nil {
		return err
	}
	if err := s.mu.file.Sync(); err != nil {
		return err
	}
	return s.fs.SyncDir(filepath.Dir(s.path))
}

// create makes the log of a new incarnation.
func (s *File) create(run slot.Root, reached uint64, rand io.Reader) error {
	var inc [8]byte
	if _, err := io.ReadFull(rand, inc[:]); err != nil {
		return fmt.Errorf("random incarnation: %w", err)
	}
	s.mu.state = newState(run, slot.Incarnation(binary.BigEndian.Uint64(inc[:])))
	s.mu.state.boot, s.mu.state.peak = 1, reached
	return s.rewrite()
}

// boot counts this opening on disk. It compacts the log if that saves a third of it and more than
// garbage bytes.
func (s *File) boot(garbage int64, logger *slog.Logger) error {
	s.mu.state.boot++
	if g := s.mu.state.garbage; g <= garbage || g < s.mu.end/3 {
		return s.append([]wire.Entry{
			wire.EntryBoot{Count: s.mu.state.boot}, wire.EntryPeak{Height: s.mu.state.peak},
		})
	}
	before := s.mu.end
	if err := s.compact(); err != nil {
		return err
	}
	logger.Info("compacted the ledger log", "file", s.path, "before", before, "after", s.mu.end)
	return nil
}

// rewrite replaces the log by one that holds just the present state. A crash leaves the old file or
// the new one.
func (s *File) rewrite() error {
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
		payload = wire.AppendEntry(payload, entries[i])
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
func (s *File) write(payload []byte) error {
	if uint64(len(payload)) > math.MaxUint32 {
		return fmt.Errorf("%d bytes at once do not fit the ledger log", len(payload))
	}
	b, sum := appendFrame(make([]byte, 0, frameSize(int64(len(payload)))), s.mu.sum, payload)
	if failpoint.Enabled {
		if _, err := s.mu.file.WriteAt(b[:len(b)/2], s.mu.end); err != nil {
			return err
		}
		failpoint.Here(failpoint.LogHalf)
	}
	if _, err := s.mu.file.WriteAt(b, s.mu.end); err != nil {
		return err
	}
	s.mu.end, s.mu.sum = s.mu.end+int64(len(b)), sum
	return nil
}

func (s *File) append(entries []wire.Entry) error {
	var payload []byte
	for _, e := range entries {
		payload = wire.AppendEntry(payload, e)
	}
	if err := s.write(payload); err != nil {
		return err
	}
	return s.mu.file.Sync()
}

// Load returns what is on disk now.
func (s *File) Load() (wire.Saved, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.err != nil {
		return wire.Saved{}, s.mu.err
	}
	return s.mu.state.saved(), nil
}

// Save appends entries with one write and one sync. After a crash all of them are there or none.
// The first error is final, because only opening the log again shows what a failed write or sync
// has left on disk.
func (s *File) Save(entries []wire.Entry) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.err != nil || len(entries) == 0 {
		return s.mu.err
	}
	if err := s.mu.state.fold(entries); err != nil {
		s.mu.err = fmt.Errorf("%s: refused an entry: %w", s.path, err)
		return s.mu.err
	}
	if err := s.append(entries); err != nil {
		s.mu.err = fmt.Errorf("%s: %w; free or repair the disk and start again", s.path, err)
	}
	forgot := slices.ContainsFunc(entries, func(e wire.Entry) bool { _, ok := e.(wire.EntryPast); return ok })
	if g := s.mu.state.garbage; s.mu.err == nil && forgot && g > s.live && g >= s.mu.end/3 {
		if err := s.compact(); err != nil {
			s.mu.err = fmt.Errorf("%w; free or repair the disk and start again", err)
		}
	}
	return s.mu.err
}

// compact rewrites the log without its garbage.
func (s *File) compact() error {
	if err := s.mu.file.Close(); err != nil {
		return fmt.Errorf("compact %s: %w", s.path, err)
	}
	if err := s.rewrite(); err != nil {
		return fmt.Errorf("compact %s: %w", s.path, err)
	}
	return nil
}

// Close unlocks the directory. A second call does nothing.
func (s *File) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if errors.Is(s.mu.err, errClosed) {
		return nil
	}
	s.mu.err = errClosed
	var err error
	if s.mu.file != nil {
		err = s.mu.file.Close()
	}
	return errors.Join(err, s.lock.Close())
}
