//go:build unix && !linux

package plugin

import "os"

// anonymousFile is a temporary file that has been unlinked.
func anonymousFile() (*os.File, error) {
	f, err := os.CreateTemp("", "p2pdiloco-vectors-")
	if err != nil {
		return nil, err
	}
	return f, os.Remove(f.Name())
}

func setSize(f *os.File, size int64) error { return f.Truncate(size) }
