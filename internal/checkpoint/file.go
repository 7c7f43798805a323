package checkpoint

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
)

const tempPrefix = "tmp-"

// writeFile makes a file appear under its name, whole and durable, or not at all.
func (s *Store) writeFile(name string, write func(io.Writer) error) error {
	f, err := s.fs.CreateTemp(s.dir, tempPrefix+"*")
	if err != nil {
		return s.diskError(name, err)
	}
	if err := write(f); err != nil {
		s.discard(f)
		return s.diskError(name, err)
	}
	return s.publish(f, name)
}

// publish syncs a temporary file and gives it its name. On an error the file is gone.
func (s *Store) publish(f disk.File, name string) error {
	if err := f.Sync(); err != nil {
		s.discard(f)
		return s.diskError(name, err)
	}
	if err := f.Close(); err != nil {
		_ = s.fs.Remove(f.Name())
		return s.diskError(name, err)
	}
	if err := s.fs.Rename(f.Name(), filepath.Join(s.dir, name)); err != nil {
		_ = s.fs.Remove(f.Name())
		return s.diskError(name, err)
	}
	if err := s.fs.SyncDir(s.dir); err != nil {
		return s.diskError(name, err)
	}
	return nil
}

func (s *Store) discard(f disk.File) {
	_ = f.Close()
	_ = s.fs.Remove(f.Name())
}

// diskError says what to do about a failed write. The files that were there are as they were.
func (s *Store) diskError(name string, err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("checkpoint: cannot write %s: %w: free space in %s; older files there are intact", name, err, s.dir)
	case errors.Is(err, os.ErrPermission), errors.Is(err, syscall.EROFS):
		return fmt.Errorf("checkpoint: cannot write %s: %w: make %s writable for this user", name, err, s.dir)
	}
	return fmt.Errorf("checkpoint: cannot write %s in %s: %w", name, s.dir, err)
}
