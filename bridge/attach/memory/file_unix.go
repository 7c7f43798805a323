//go:build unix && !linux

package memory

import "os"

// File is a file without a name, mapped by all that share it.
type File struct {
	*os.File
	readOnly *os.File
}

// New makes a temporary file of that many bytes and unlinks it.
func New(size uint64) (*File, error) {
	f, read, err := unnamed("", size)
	if err != nil {
		return nil, err
	}
	return &File{f, read}, nil
}

// ReadOnly returns a descriptor for reading alone, once.
func (f *File) ReadOnly() (*os.File, error) { return f.readOnly, nil }
