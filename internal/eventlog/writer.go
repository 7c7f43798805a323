package eventlog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
)

// Rotation says when a file is begun anew. The full one is renamed: FILE.1 is the newest of those,
// FILE.2 the one before. The zero value never does that.
type Rotation struct {
	Size int64 // bytes of a file, at most; but a line is never cut. 0: no bound
	Keep int   // full files that are kept
}

// ErrNotRotated is wrapped by the error of a line that was written to a file which is full and
// could not be renamed. It is tried again when as much again has been written.
var ErrNotRotated = errors.New("the file has reached its size (--events-size), but renaming it failed, so it keeps " +
	"growing")

// Writer appends lines to a file. Its methods may be called from any goroutine.
type Writer struct {
	path     string
	rotation Rotation
	mu       struct {
		sync.Mutex
		f    file
		size int64 // since which the file counts as begun
		torn bool  // the file ends in the middle of a line
	}
}

// file is what Writer needs of an *os.File.
type file interface {
	io.WriteCloser
	Stat() (fs.FileInfo, error)
}

// Create opens path for appending. If it is missing, Create makes it for this user alone, because
// events name peers and their addresses. A file that exists keeps its mode. A line that was cut off
// there, as a process was killed, is ended by the next one. Only regular files are rotated.
func Create(path string, rotation Rotation) (*Writer, error) {
	torn, err := endsMidLine(path)
	if err != nil {
		return nil, fmt.Errorf("%w: name a file that can be read and written", err)
	}
	w := &Writer{path: path, rotation: rotation}
	if err := w.open(0o600); err != nil {
		return nil, fmt.Errorf("%w: name a file that can be written", err)
	}
	w.mu.torn = torn
	return w, nil
}

// endsMidLine says whether a file ends in the middle of a line.
func endsMidLine(path string) (bool, error) {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return false, nil // an error shows up when the file is opened
	}
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	var last [1]byte
	if _, err := f.ReadAt(last[:], info.Size()-1); err != nil {
		return false, err
	}
	return last[0] != '\n', nil
}

// Line appends a line, given without its end, as it is.
func (w *Writer) Line(line []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var full error
	if w.rotation.Size > 0 && w.mu.size > 0 && w.mu.size+int64(len(line)+1) > w.rotation.Size {
		full = w.rotate()
	}
	b := make([]byte, 0, len(line)+2)
	if w.mu.torn { // by a kill, or a disk that was full: that becomes a line of its own
		b = append(b, '\n')
	}
	b = append(append(b, line...), '\n')
	n, err := w.mu.f.Write(b)
	w.mu.size += int64(n)
	if n > 0 {
		w.mu.torn = b[n-1] != '\n'
	}
	return errors.Join(err, full)
}

// Close closes the file.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.f.Close()
}
