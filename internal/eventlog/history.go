package eventlog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
)

// Bounds of a history. One that has come to either is thinned to at most three quarters.
const (
	historyLines = 10_000
	historyBytes = 8 << 20
)

// History keeps lines of JSON in a file. The newest half of them is whole; of the older ones each
// second goes when the file is full, so that the oldest are ever further apart. It is for one
// goroutine.
type History struct {
	fs    disk.FS
	path  string
	file  *Writer // nil: it is not open
	lines int
	bytes int
}

// NewHistory makes a history. It opens its file with the first line.
func NewHistory(fsys disk.FS, path string) *History { return &History{fs: fsys, path: path} }

// Add appends a line. After an error the line is missing in the file, and the next one is tried
// again.
func (h *History) Add(v any) error {
	if err := h.add(v); err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	return nil
}

func (h *History) add(v any) error {
	line, err := json.Marshal(v)
	if err == nil && h.file == nil {
		err = h.open()
	}
	if err == nil && (h.lines >= historyLines || h.bytes+len(line) >= historyBytes) {
		err = h.thin()
	}
	if err == nil {
		err = h.file.Line(line)
	}
	if err == nil {
		h.lines, h.bytes = h.lines+1, h.bytes+len(line)+1
	}
	return err
}

// open opens the file, and counts what is in it.
func (h *History) open() (err error) {
	if h.file, err = Create(h.path, Rotation{}); err != nil {
		return err
	}
	h.lines, h.bytes = 0, 0
	return eachLine(h.path, func(line []byte) { h.lines, h.bytes = h.lines+1, h.bytes+len(line)+1 })
}

// thin leaves out each second line of the older half, and what is damaged. Until the new file is
// whole and durable, the old one stays.
func (h *History) thin() error {
	var all [][]byte
	err := eachLine(h.path, func(line []byte) {
		if json.Valid(line) {
			all = append(all, bytes.Clone(line))
		}
	})
	if err != nil {
		return err
	}
	var kept bytes.Buffer
	lines := 0
	for i, line := range all {
		if i >= len(all)/2 || i%2 == 0 {
			lines++
			kept.Write(append(line, '\n'))
		}
	}
	if err := disk.Replace(h.fs, h.path, kept.Bytes()); err != nil {
		return err
	}
	h.lines, h.bytes = lines, kept.Len()
	old := h.file
	h.file, err = Create(h.path, Rotation{})
	return errors.Join(err, old.Close())
}

// Close closes the file.
func (h *History) Close() error {
	if h.file == nil {
		return nil
	}
	return h.file.Close()
}

// ReadHistory reads a file of lines, oldest first, where a peer may be writing it. It leaves out
// what cannot be read, such as a line that was cut off. A missing file is an empty one.
func ReadHistory[T any](path string) (all []T, err error) {
	err = eachLine(path, func(line []byte) {
		var v T
		if json.Unmarshal(line, &v) == nil {
			all = append(all, v)
		}
	})
	return all, err
}

func eachLine(path string, f func(line []byte)) error {
	lines := Follow(path)
	return errors.Join(lines.Next(f), lines.Close())
}
