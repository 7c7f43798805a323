//go:build unix && !aix && !solaris

package disk

import (
	"errors"
	"os"
	"syscall"
)

// lock takes the lock file at path, made if missing.
func lock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	switch {
	case errors.Is(err, syscall.EWOULDBLOCK):
		err = ErrLocked
	case err != nil:
		err = &os.PathError{Op: "lock", Path: path, Err: err}
	default:
		return f, nil
	}
	return nil, errors.Join(err, f.Close())
}
