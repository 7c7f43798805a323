package disk

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// MakeDir makes a directory and the missing ones above it, durably, for this user alone. It is no
// error if the directory exists already.
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
	// Sync also if the directory existed, because the process that made it may have died before its
	// sync. But then this user may have no rights in the directory above.
	err = fsys.SyncDir(parent)
	if existed && !Fault(err) {
		return nil
	}
	return err
}

// isDir tells whether an existing path is a directory. A path that cannot be opened counts as one.
func isDir(fsys FS, path string) bool {
	f, err := fsys.OpenFile(path, os.O_RDONLY)
	if err != nil {
		return true
	}
	info, err := f.Stat()
	_ = f.Close()
	return err != nil || info.IsDir()
}

// writeTemp writes b to a new file beside path, which is open and not synced.
func writeTemp(fsys FS, path string, b []byte) (File, error) {
	dir, pattern := filepath.Dir(path), "."+filepath.Base(path)+".*"
	f, err := fsys.CreateTemp(dir, pattern)
	if errors.Is(err, fs.ErrNotExist) {
		if err = MakeDir(fsys, dir); err == nil {
			f, err = fsys.CreateTemp(dir, pattern)
		}
	}
	if err != nil {
		return nil, err
	}
	if _, err := f.Write(b); err != nil {
		_ = f.Close()
		_ = fsys.Remove(f.Name())
		return nil, err
	}
	return f, nil
}

// Create makes path with contents b, readable by this user alone, all or nothing and durable. If
// the file exists, it fails with fs.ErrExist.
func Create(fsys FS, path string, b []byte) error {
	f, err := writeTemp(fsys, path, b)
	if err != nil {
		return err
	}
	return publish(fsys, f, path, place)
}

// place gives a file a name that is free. Some file systems have no hard links (exFAT, many network
// and FUSE mounts): there a process that makes the file at the same moment may lose it. Those that
// write to one directory have its lock.
func place(fsys FS, from, to string) error {
	err := fsys.Link(from, to)
	if !errors.Is(err, syscall.EPERM) && !errors.Is(err, errors.ErrUnsupported) {
		if err == nil {
			_ = fsys.Remove(from) // a leftover name does no harm
		}
		return err
	}
	f, taken := fsys.OpenFile(to, os.O_RDONLY)
	switch {
	case taken == nil:
		return errors.Join(&fs.PathError{Op: "create", Path: to, Err: fs.ErrExist}, f.Close())
	case !errors.Is(taken, fs.ErrNotExist):
		return err
	}
	return fsys.Rename(from, to)
}

// Replace replaces the file at path by one with contents b, readable by this user alone, all or
// nothing and durable.
func Replace(fsys FS, path string, b []byte) error {
	f, err := writeTemp(fsys, path, b)
	if err != nil {
		return err
	}
	return Publish(fsys, f, path)
}

// Publish syncs and closes a file that was written beside path and gives it that name, durably. A
// file that had the name is replaced. After an error the file that was written is gone, unless only
// the name may not be durable.
func Publish(fsys FS, f File, path string) error { return publish(fsys, f, path, FS.Rename) }

func publish(fsys FS, f File, path string, name func(fsys FS, from, to string) error) error {
	err := f.Sync()
	if err = errors.Join(err, f.Close()); err == nil {
		err = name(fsys, f.Name(), path)
	}
	if err != nil {
		_ = fsys.Remove(f.Name())
		return err
	}
	return fsys.SyncDir(filepath.Dir(path))
}

// Sweep removes what processes have left in a directory that died in Create or Replace of one of
// the named files: a secret may be in it, or a whole model. Nobody may be writing there now. It
// removes what it can; what stays does no harm.
func Sweep(fsys FS, dir string, names ...string) {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		left := slices.ContainsFunc(names, func(name string) bool { return isTemp(e.Name(), name) })
		if left && e.Type().IsRegular() {
			_ = fsys.Remove(filepath.Join(dir, e.Name()))
		}
	}
}

// isTemp says whether writeTemp gives a file such a name for one of the name of.
func isTemp(name, of string) bool {
	random, ok := strings.CutPrefix(name, "."+of+".")
	return ok && random != "" && strings.Trim(random, "0123456789") == ""
}

// Read reads the file at path. It refuses more than limit bytes.
func Read(fsys FS, path string, limit int64) ([]byte, error) {
	return read(fsys, path, limit, func(File) error { return nil })
}

// Fault tells whether an error means that the disk takes no more writes: it is full, read-only or
// failing.
func Fault(err error) bool {
	for _, fault := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EIO} {
		if errors.Is(err, fault) {
			return true
		}
	}
	return false
}
