//go:build !unix

package statedir

import (
	"errors"
	"io/fs"
	"os"
)

// lock makes the lock file at path, which must not exist. A killed process leaves it: then the next directory is taken,
// until somebody removes the file.
func lock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil, errTaken
	}
	return f, err
}

func unlock(f *os.File) error { return errors.Join(f.Close(), os.Remove(f.Name())) }
