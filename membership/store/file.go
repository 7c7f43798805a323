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
	"sync"
	"sync/atomic"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/failpoint"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// compactAbove is the garbage, in bytes, that a log of any size may carry.
const compactAbove = 4 << 20

var errClosed = fmt.Errorf("ledger store: %w", net.ErrClosed)

// File is an open log. It implements membership.Store, and several goroutines may use it.
type File struct {
	path string
	fs   disk.FS
	lock io.Closer
	live int64 // garbage above which the log is compacted
	size atomic.Int64
	mu   struct {
		sync.Mutex
		records recordFile
		file    disk.File
		end     int64
		sum     logSum
		state   *state
		err     error // final: after a failed write nobody knows what is on disk
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
	s := &File{fs: fsys, path: filepath.Join(dir, logName), lock: lock, live: garbage}
	s.mu.records.path = filepath.Join(dir, recordsName)
	if err := s.open(run, reached, rand, logger); err != nil {
		_ = s.Close()
		return nil, err
	}
	s.noteSize()
	return s, nil
}

func (s *File) open(run slot.Root, reached uint64, rand io.Reader, logger *slog.Logger) error {
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
	return s.boot(logger)
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
	if err := s.openRecords(logger); err != nil {
		return err
	}
	return s.settle(log.frames.last)
}

// openRecords opens the file of the records that the log points at.
func (s *File) openRecords(logger *slog.Logger) error {
	head, sum := appendHead(nil, s.mu.state.run, s.mu.state.inc)
	cut, err := s.mu.records.open(s.fs, head, sum, s.mu.state.chain)
	if cut > 0 {
		logger.Warn("cut off the end of the ledger's records: the last write before a crash or power cut",
			"file", s.mu.records.path, "offset", s.mu.records.end, "bytes", cut)
	}
	return err
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
	if err := s.openRecords(nil); err != nil {
		return err
	}
	return s.rewrite()
}

// wasteful says whether to compact the log saves a third of it, and enough bytes.
func (s *File) wasteful() bool {
	g := s.mu.state.garbage
	return g > s.live && g >= s.mu.end/3
}

// boot counts this opening on disk. It compacts the log if that is wasteful.
func (s *File) boot(logger *slog.Logger) error {
	s.mu.state.boot++
	if !s.wasteful() {
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
	defer s.noteSize()
	if s.mu.err != nil || len(entries) == 0 {
		return s.mu.err
	}
	logged, err := s.fold(entries)
	if err != nil {
		s.mu.err = fmt.Errorf("%s: refused an entry: %w", s.path, err)
		return s.mu.err
	}
	err = s.mu.records.flush() // first: the log points at them
	if err == nil {
		err = s.append(logged)
	}
	if err != nil {
		s.mu.err = fmt.Errorf("%s: %w; free or repair the disk and start again", s.path, err)
	}
	if s.mu.err == nil && s.wasteful() {
		if err := s.compact(); err != nil {
			s.mu.err = fmt.Errorf("%w; free or repair the disk and start again", err)
		}
	}
	return s.mu.err
}

// fold folds entries, gives the records among them their places, and returns what the log gets.
func (s *File) fold(entries []wire.Entry) (logged []wire.Entry, err error) {
	for _, e := range entries {
		if err := s.mu.state.apply(e); err != nil {
			return nil, err
		}
		if c, ok := e.(wire.EntryCommit); ok {
			at := &s.mu.state.chain[s.mu.state.height()-1]
			at.Offset = s.mu.records.add(c)
			e = *at
		}
		logged = append(logged, e)
	}
	return logged, nil
}

// Record implements wire.Records, with the records that are on disk now.
func (s *File) Record(height uint64) (wire.Commit, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if errors.Is(s.mu.err, errClosed) {
		return wire.Commit{}, s.mu.err
	}
	at, err := place(s.mu.state.chain, height)
	if err != nil {
		return wire.Commit{}, err
	}
	return readRecord(s.mu.records.file, s.mu.records.path, s.mu.records.sum, at)
}

// Size returns the bytes of the log and of the records. It does not wait for the disk.
func (s *File) Size() int64 { return s.size.Load() }

// noteSize is called with mu held, once what is on disk has changed.
func (s *File) noteSize() { s.size.Store(s.mu.end + s.mu.records.end) }

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
	for _, f := range []disk.File{s.mu.file, s.mu.records.file} {
		if f != nil {
			err = errors.Join(err, f.Close())
		}
	}
	return errors.Join(err, s.lock.Close())
}
