//go:build unix && !linux

package attach

import (
	"context"
	"errors"
	"os"
)

// MemoryFile is a file without a name, mapped by all that share it.
type MemoryFile struct {
	*os.File
	readOnly *os.File // nil once it was asked for
}

// NewMemoryFile makes a temporary file of that many bytes and unlinks it. All of them are written.
// It stops when ctx ends.
func NewMemoryFile(ctx context.Context, size uint64) (*MemoryFile, error) {
	f, read, err := unnamed(ctx, "", size)
	if err != nil {
		return nil, err
	}
	return &MemoryFile{f, read}, nil
}

// ReadOnly returns a descriptor for reading alone, once.
func (f *MemoryFile) ReadOnly() (read *os.File, err error) {
	read, f.readOnly = f.readOnly, nil
	return read, nil
}

// Close closes the descriptors that nobody else has.
func (f *MemoryFile) Close() error {
	err := f.File.Close()
	if f.readOnly != nil {
		err = errors.Join(err, f.readOnly.Close())
	}
	return err
}
