package membership

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// load reads the log from the beginning, cuts off a torn end, and makes sure of the rest.
func (s *FileStore) load(run slot.Root, logger *slog.Logger) error {
	file := s.mu.file
	info, err := file.Stat()
	if err != nil {
		return err
	}
	r := bufio.NewReaderSize(file, int(min(info.Size(), 1<<20)))
	if err := s.loadHead(r, run); err != nil {
		return err
	}
	f := &frameReader{r: r, at: int64(headSize), size: info.Size(), sum: s.mu.sum}
	for {
		switch err := s.loadFrame(f); {
		case err == nil:
			continue
		case errors.Is(err, io.EOF):
		case errors.Is(err, errTorn):
			logger.Warn("cut off the torn end of the ledger log: the last write before a crash or power cut",
				"file", s.path, "offset", f.at, "bytes", f.size-f.at)
			if err := file.Truncate(f.at); err != nil {
				return fmt.Errorf("%s: cut off the torn end: %w", s.path, err)
			}
		default:
			return s.damaged(f.at, err)
		}
		s.mu.end, s.mu.sum = f.at, f.sum
		return s.settle(f.last)
	}
}

// settle makes durable what was read: the process before may have died between a write and its sync, or after a sync that failed. The
// kernel then shows bytes that are not on the disk, and after a failed sync takes them for written; so the last frame, the only
// one that this can be true of, is written again. The same holds for the log's name.
func (s *FileStore) settle(last []byte) error {
	if _, err := s.mu.file.WriteAt(last, s.mu.end-int64(len(last))); err != nil {
		return err
	}
	if err := s.mu.file.Sync(); err != nil {
		return err
	}
	return s.fs.SyncDir(filepath.Dir(s.path))
}

func (s *FileStore) loadHead(r io.Reader, run slot.Root) error {
	head := make([]byte, headSize)
	n, err := io.ReadFull(r, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return err
	}
	theirs, inc, sum, err := parseHead(head[:n])
	if errors.Is(err, ErrStoreForeign) {
		return fmt.Errorf("%s: %w; choose another data directory", s.path, err)
	}
	if err != nil {
		return s.damaged(0, err)
	}
	if theirs != run {
		return fmt.Errorf("%s: %w: %s, this is %s; give each run a data directory of its own", s.path, ErrStoreRun, theirs.Short(), run.Short())
	}
	s.mu.state, s.mu.sum = newLedgerState(run, inc), sum
	return nil
}

func (s *FileStore) loadFrame(f *frameReader) error {
	payload, err := f.next()
	if err != nil {
		return err
	}
	entries, err := parseEntries(payload)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrStoreCorrupt, err)
	}
	for _, e := range entries {
		if _, live := e.(EntryCommit); !live {
			s.mu.state.garbage += int64(len(appendEntry(nil, e)))
		}
		if err := s.mu.state.apply(e); err != nil {
			return fmt.Errorf("%w: %w", ErrStoreCorrupt, err)
		}
	}
	return nil
}

// damaged says where and what to do. A node that goes on without its votes could contradict them, so it may not.
func (s *FileStore) damaged(at int64, err error) error {
	return fmt.Errorf("%s at byte %d: %w; bring the file back from a backup only if nothing ran since it was made, "+
		"otherwise move it away: this peer then comes back as a new member, once the others have agreed to go on without the old one", s.path, at, err)
}
