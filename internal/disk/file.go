// Package disk holds what every part that keeps files shares: the file system as a seam, writes that are whole and durable or did
// not happen, bounded reads, and the lock that keeps a second process out of a directory.
package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// MakeDir makes a directory and what is missing above it, durably, for this user alone. That it exists already is no error.
func MakeDir(fsys FS, dir string) error {
	parent := filepath.Dir(dir)
	if parent == dir {
		return nil
	}
	if err := MakeDir(fsys, parent); err != nil {
		return err
	}
	err := fsys.Mkdir(dir)
	existed := errors.Is(err, fs.ErrExist)
	if err != nil && !existed {
		return err
	}
	if existed && !isDir(fsys, dir) {
		return &fs.PathError{Op: "mkdir", Path: dir, Err: syscall.ENOTDIR}
	}
	// Also where it existed: who made it may have died before this. But then the place above may be no business of ours.
	err = fsys.SyncDir(parent)
	if existed && !Fault(err) {
		return nil
	}
	return err
}

// isDir says whether what exists is a directory, as far as one may look.
func isDir(fsys FS, path string) bool {
	f, err := fsys.OpenFile(path, os.O_RDONLY)
	if err != nil {
		return true
	}
	info, err := f.Stat()
	_ = f.Close()
	return err != nil || info.IsDir()
}

// writeTemp writes b to a new file beside path and has it on disk when it returns.
func writeTemp(fsys FS, path string, b []byte) (name string, err error) {
	dir, pattern := filepath.Dir(path), "."+filepath.Base(path)+".*"
	f, err := fsys.CreateTemp(dir, pattern)
	if errors.Is(err, fs.ErrNotExist) {
		if err = MakeDir(fsys, dir); err == nil {
			f, err = fsys.CreateTemp(dir, pattern)
		}
	}
	if err != nil {
		return "", err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		_ = fsys.Remove(f.Name())
		return "", err
	}
	return f.Name(), nil
}

// Create makes path with contents b, readable by this user alone, all or nothing and durable. An existing file makes it fail with fs.ErrExist.
func Create(fsys FS, path string, b []byte) error {
	tmp, err := writeTemp(fsys, path, b)
	if err != nil {
		return err
	}
	defer fsys.Remove(tmp) //nolint:errcheck // a leftover name does no harm
	if err := fsys.Link(tmp, path); err != nil {
		return err
	}
	return fsys.SyncDir(filepath.Dir(path))
}

// Replace puts b in path's place, all or nothing and durable, readable by this user alone.
func Replace(fsys FS, path string, b []byte) error {
	tmp, err := writeTemp(fsys, path, b)
	if err != nil {
		return err
	}
	if err := fsys.Rename(tmp, path); err != nil {
		_ = fsys.Remove(tmp)
		return err
	}
	return fsys.SyncDir(filepath.Dir(path))
}

// Read reads path, refusing more than limit bytes.
func Read(fsys FS, path string, limit int64) ([]byte, error) {
	f, err := fsys.OpenFile(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("larger than %d bytes", limit)
	}
	return b, err
}
