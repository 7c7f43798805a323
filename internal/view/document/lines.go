package document

import (
	"crypto/sha256"
	"errors"

	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
)

// lines appends to a file the lines that it lacks: a peer that was started again goes on in it.
type lines struct {
	file *eventlog.Writer
	has  map[[sha256.Size]byte]bool // hashes of lines
}

func openLines(path string) (*lines, error) {
	l := &lines{has: map[[sha256.Size]byte]bool{}}
	before := eventlog.Follow(path)
	err := before.Next(func(line []byte) { l.has[sha256.Sum256(line)] = true })
	if err = errors.Join(err, before.Close()); err != nil {
		return nil, err
	}
	if l.file, err = eventlog.Create(path, eventlog.Rotation{}); err != nil {
		return nil, errors.Unwrap(err) // which takes the file for one of events
	}
	return l, nil
}

func (l *lines) add(line []byte) error {
	hash := sha256.Sum256(line)
	if l.has[hash] {
		return nil
	}
	if err := l.file.Line(line); err != nil {
		return errors.Unwrap(err)
	}
	l.has[hash] = true
	return nil
}

// Close closes the file.
func (l *lines) Close() error { return l.file.Close() }
