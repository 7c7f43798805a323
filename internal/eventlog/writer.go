package eventlog

import (
	"encoding/json"
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

// Create opens path for appending and makes it if it is missing.
func Create(path string) (*Writer, error) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("events file: %w: name a file that can be written", err)
	}
	w := &Writer{}
	w.mu.f = f
	return w, nil
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
