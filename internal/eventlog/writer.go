package eventlog

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
)

// Writer appends lines to a file. Its methods may be called from any goroutine.
type Writer struct {
	mu struct {
		sync.Mutex
		f *os.File
	}
}

// Create opens path for appending. If it is missing, Create makes it for this user alone, because
// events name peers and their addresses. A file that exists keeps its mode. A line that was cut off
// there, as a process was killed, is ended.
func Create(path string) (*Writer, error) {
	torn, err := endsMidLine(path)
	if err != nil {
		return nil, fmt.Errorf("events file: %w: name a file that can be read and written", err)
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("events file: %w: name a file that can be written", err)
	}
	w := &Writer{}
	w.mu.f = f
	if torn {
		if err := w.Line(nil); err != nil {
			return nil, errors.Join(err, f.Close())
		}
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
	if _, err := w.mu.f.Write(b); err != nil {
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
