package eventlog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// MaxLine bounds one line, in bytes. Events are far shorter.
const MaxLine = 1 << 20

const readSize = 64 << 10 // bytes read at once

// Follower reads a file that another process appends to and rotates. The file may not exist yet. It
// is for one goroutine.
type Follower struct {
	path string
	f    *os.File
	rest []byte // the beginning of a line whose end is not there yet
}

// Follow starts at the file's beginning. Nothing is opened before Next.
func Follow(path string) *Follower { return &Follower{path: path} }

// Next calls f for every whole line that came since the last call. f must not keep the line. A line
// that is not whole yet waits for its end.
func (w *Follower) Next(f func(line []byte)) error {
	if err := w.open(); err != nil || w.f == nil {
		return err
	}
	for {
		if err := w.toEnd(f); err != nil {
			return err
		}
		newer, err := next(w.path, w.f)
		if err != nil || newer == nil {
			return err
		}
		// what came before the file was renamed, and after its end was seen
		if err := w.toEnd(f); err != nil {
			return errors.Join(err, newer.Close())
		}
		if err := w.f.Close(); err != nil {
			return errors.Join(err, newer.Close())
		}
		w.f, w.rest = newer, nil
	}
}

// toEnd reads what is there of the file.
func (w *Follower) toEnd(f func(line []byte)) error {
	buf := make([]byte, readSize)
	for {
		n, err := w.f.Read(buf)
		w.rest = w.lines(append(w.rest, buf[:n]...), f)
		if len(w.rest) > MaxLine {
			return fmt.Errorf("%s: a line of more than %d bytes", w.path, MaxLine)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (w *Follower) open() (err error) {
	if w.f != nil {
		return nil
	}
	if w.f, err = os.Open(w.path); errors.Is(err, fs.ErrNotExist) {
		w.f, err = nil, nil
	}
	return err
}

// lines passes on the whole lines of b and returns the rest.
func (w *Follower) lines(b []byte, f func(line []byte)) (rest []byte) {
	for {
		line, after, found := bytes.Cut(b, []byte{'\n'})
		if !found {
			return b
		}
		if len(line) > 0 {
			f(line)
		}
		b = after
	}
}

// Close closes the file.
func (w *Follower) Close() error {
	if w.f == nil {
		return nil
	}
	return w.f.Close()
}
