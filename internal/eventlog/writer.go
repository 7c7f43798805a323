package eventlog

import (
	"encoding/json"
	"errors"
	"fmt"
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
var ErrNotRotated = errors.New("the file is full and cannot be begun anew: it grows on")

// Writer appends lines to a file. Its methods may be called from any goroutine.
type Writer struct {
	path     string
	rotation Rotation
	mu       struct {
		sync.Mutex
		f    *os.File
		size int64 // since which the file counts as begun
	}
}

// Create opens path for appending. If it is missing, Create makes it for this user alone, because
// events name peers and their addresses. A file that exists keeps its mode. A line that was cut off
// there, as a process was killed, is ended. Only regular files are rotated.
func Create(path string, rotation Rotation) (*Writer, error) {
	torn, err := endsMidLine(path)
	if err != nil {
		return nil, fmt.Errorf("events file: %w: name a file that can be read and written", err)
	}
	w := &Writer{path: path, rotation: rotation}
	if err := w.open(0o600); err != nil {
		return nil, fmt.Errorf("events file: %w: name a file that can be written", err)
	}
	if torn {
		if _, err := w.mu.f.Write([]byte{'\n'}); err != nil {
			return nil, errors.Join(err, w.mu.f.Close())
		}
		w.mu.size++
	}
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

// Event appends v as one line of JSON.
func (w *Writer) Event(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("events file: %w", err)
	}
	return w.Line(b)
}

// Line appends a line, given without its end, as it is.
func (w *Writer) Line(line []byte) error {
	b := append(append(make([]byte, 0, len(line)+1), line...), '\n')
	w.mu.Lock()
	defer w.mu.Unlock()
	var full error
	if w.rotation.Size > 0 && w.mu.size > 0 && w.mu.size+int64(len(b)) > w.rotation.Size {
		full = w.rotate()
	}
	n, err := w.mu.f.Write(b)
	w.mu.size += int64(n)
	if err = errors.Join(err, full); err != nil {
		return fmt.Errorf("events file: %w", err)
	}
	return nil
}

// Close closes the file.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.f.Close()
}
