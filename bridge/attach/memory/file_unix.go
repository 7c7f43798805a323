//go:build unix && !linux

package memory

import (
	"errors"
	"os"
)

// File is a file without a name, mapped by all that share it.
type File struct {
	*os.File
	readOnly *os.File
}

// New makes a temporary file of that many bytes and unlinks it.
func New(size uint64) (*File, error) {
	f, err := os.CreateTemp("", "p2pdiloco-vectors-")
	if err != nil {
		return nil, err
	}
	read, err := os.Open(f.Name())
	if err == nil {
		err = errors.Join(os.Remove(f.Name()), f.Truncate(int64(size)))
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &File{f, read}, nil
}

// ReadOnly returns a descriptor for reading alone, once.
func (f *File) ReadOnly() (*os.File, error) { return f.readOnly, nil }
