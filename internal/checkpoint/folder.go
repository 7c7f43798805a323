package checkpoint

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
)

const tempPrefix = "tmp-"

// folder is the directory on disk. Files appear in it whole and durable, or not at all.
type folder struct {
	dir      string
	fs       disk.FS
	log      *slog.Logger
	readOnly bool // nothing in it is changed
}

func (d *folder) path(name string) string { return filepath.Join(d.dir, name) }

// open opens a file for reading.
func (d *folder) open(name string) (disk.File, error) {
	return d.fs.OpenFile(d.path(name), os.O_RDONLY)
}

// names lists the files.
func (d *folder) names() (names []string, err error) {
	entries, err := d.fs.ReadDir(d.dir)
	if err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, nil
}

// write makes a file.
func (d *folder) write(name string, write func(io.Writer) error) error {
	f, err := d.fs.CreateTemp(d.dir, tempPrefix+"*")
	if err != nil {
		return d.explain(name, err)
	}
	if err := write(f); err != nil {
		d.discard(f)
		return d.explain(name, err)
	}
	return d.publish(f, name)
}

// publish syncs a temporary file and gives it its name. On an error the file is gone.
func (d *folder) publish(f disk.File, name string) error {
	if err := f.Sync(); err != nil {
		d.discard(f)
		return d.explain(name, err)
	}
	if err := f.Close(); err != nil {
		_ = d.fs.Remove(f.Name())
		return d.explain(name, err)
	}
	if err := d.fs.Rename(f.Name(), d.path(name)); err != nil {
		_ = d.fs.Remove(f.Name())
		return d.explain(name, err)
	}
	if err := d.fs.SyncDir(d.dir); err != nil {
		return d.explain(name, err)
	}
	return nil
}

func (d *folder) discard(f disk.File) {
	_ = f.Close()
	_ = d.fs.Remove(f.Name())
}

// remove removes a file, if it is there.
func (d *folder) remove(name string) error {
	err := d.fs.Remove(d.path(name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("checkpoint: cannot remove %s: %w", name, err)
	}
	return nil
}

// setAside renames a corrupt file. It stays on disk, for a person to look at, until the next Prune.
func (d *folder) setAside(name string, why *CorruptError) {
	d.log.Error("a file is torn or corrupt and is not used", "file", why.Path, "why", why.Why)
	if d.readOnly {
		return
	}
	path := d.path(name)
	if err := d.fs.Rename(path, path+corruptSuffix); err != nil {
		d.log.Error("cannot set a corrupt file aside: remove it by hand", "file", path, "error", err)
	}
}

// explain says what to do about a failed write. The files that were there are as they were.
func (d *folder) explain(name string, err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("checkpoint: cannot write %s: %w: free space in %s; older files there are intact", name, err,
			d.dir)
	case errors.Is(err, os.ErrPermission), errors.Is(err, syscall.EROFS):
		return fmt.Errorf("checkpoint: cannot write %s: %w: make %s writable for this user", name, err, d.dir)
	}
	return fmt.Errorf("checkpoint: cannot write %s in %s: %w", name, d.dir, err)
}
