package store

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// Read returns what the log in dir holds, without opening the store. It changes nothing, and a peer
// may be running on the log. It does not see a write that is under way. The errors are those of
// Open, and os.ErrNotExist if there is no log.
func Read(dir string, run slot.Root) (*Reading, error) {
	path := filepath.Join(dir, logName)
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("ledger log: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	log, err := readHead(path, io.LimitReader(file, info.Size()), info.Size(), run)
	if err != nil {
		return nil, err
	}
	if _, err := log.replay(); err != nil {
		return nil, err
	}
	return newReading(dir, log.state.saved(), log.head, log.state.chain), nil
}

// reader reads a log from its beginning and folds the entries.
type reader struct {
	path   string // for errors
	state  *state
	head   logSum
	frames frameReader
}

// readHead reads the head of a log of size bytes.
func readHead(path string, r io.Reader, size int64, run slot.Root) (*reader, error) {
	r = bufio.NewReaderSize(r, int(min(max(size, 1), 1<<20)))
	head := make([]byte, headSize)
	n, err := io.ReadFull(r, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return nil, err
	}
	theirs, inc, sum, err := parseHead(head[:n])
	switch {
	case errors.Is(err, ErrForeign):
		return nil, fmt.Errorf("%s: %w; choose another data directory", path, err)
	case err != nil:
		return nil, damaged(path, 0, err)
	case theirs != run:
		return nil, fmt.Errorf("%s: %w: %s, this is %s; give each run a data directory of its own", path, ErrRun,
			theirs.Short(), run.Short())
	}
	return &reader{path: path, state: newState(run, inc), head: sum, frames: frameReader{
		r: r, at: int64(headSize), size: size, sum: sum,
	}}, nil
}

// replay folds all whole frames. It tells whether a torn end follows them.
func (l *reader) replay() (torn bool, err error) {
	for {
		switch err := l.next(); {
		case err == nil:
		case errors.Is(err, io.EOF):
			return false, nil
		case errors.Is(err, errTorn):
			return true, nil
		default:
			return false, damaged(l.path, l.frames.at, err)
		}
	}
}

// next folds the next frame.
func (l *reader) next() error {
	payload, err := l.frames.next()
	if err != nil {
		return err
	}
	entries, err := wire.ParseEntries(payload)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	for _, e := range entries {
		if err := l.state.apply(e); err != nil {
			return fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
	}
	return nil
}

// damaged says where a log is damaged and what to do. A peer must not go on without its votes,
// because it could contradict them.
func damaged(path string, at int64, err error) error {
	return fmt.Errorf("%s at byte %d: %w; bring the file back from a backup only if nothing ran since it was made, "+
		"otherwise move it away: this peer then comes back as a new member, once the others have agreed to go on "+
		"without the old one", path, at, err)
}
