package powerfs

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
)

// FS implements disk.FS.
type FS struct {
	mu struct {
		sync.Mutex
		root  *node
		plan  func(Op) Fault
		ops   int
		temps int
		down  bool
	}
}

var _ disk.FS = (*FS)(nil)

// New makes an empty file system.
func New() *FS { return newFS(newDir()) }

func newFS(root *node) *FS {
	f := &FS{}
	f.mu.root, f.mu.plan = root, func(Op) Fault { return Fault{} }
	return f
}

// look finds a file or directory; f.mu is held.
func (f *FS) look(path string) (*node, error) {
	if f.mu.down {
		return nil, ErrPowerCut
	}
	n := f.mu.root
	for _, name := range strings.FieldsFunc(filepath.ToSlash(filepath.Clean(path)),
		func(r rune) bool { return r == '/' }) {
		if n.names == nil || n.names[name] == nil {
			return nil, fs.ErrNotExist
		}
		n = n.names[name]
	}
	return n, nil
}

var errNoDir = errors.New("not a directory")

// directory finds the one that a name is in; f.mu is held.
func (f *FS) directory(path string) (*node, string, error) {
	dir, err := f.look(filepath.Dir(path))
	if err == nil && dir.names == nil {
		err = errNoDir
	}
	return dir, filepath.Base(path), err
}

// name carries out an Op on the names of path's directory.
func (f *FS) name(kind Kind, path string, act func(dir *node, name string) error) error {
	return f.do(kind, path, func() error {
		dir, name, err := f.directory(path)
		if err == nil {
			err = act(dir, name)
		}
		if err != nil {
			return &fs.PathError{Op: string(kind), Path: path, Err: err}
		}
		return nil
	}, nil)
}

// Mkdir implements disk.FS.
func (f *FS) Mkdir(path string) error {
	return f.name(Mkdir, path, func(dir *node, name string) error {
		if dir.names[name] != nil {
			return fs.ErrExist
		}
		dir.change(map[string]*node{name: newDir()})
		return nil
	})
}

// OpenFile implements disk.FS.
func (f *FS) OpenFile(path string, flag int) (disk.File, error) {
	f.mu.Lock()
	n, err := f.look(path)
	f.mu.Unlock()
	switch {
	case errors.Is(err, fs.ErrNotExist) && flag&os.O_CREATE != 0:
		n = &node{}
		err = f.name(Create, path, func(dir *node, name string) error {
			dir.change(map[string]*node{name: n})
			return nil
		})
	case err == nil && flag&os.O_TRUNC != 0:
		err = f.do(Truncate, path, func() error { n.truncate(0); return nil }, nil)
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	return &file{fs: f, n: n, path: path}, nil
}

// CreateTemp implements disk.FS.
func (f *FS) CreateTemp(dir, pattern string) (disk.File, error) {
	f.mu.Lock()
	f.mu.temps++
	name := strings.Replace(pattern, "*", fmt.Sprint(f.mu.temps), 1)
	f.mu.Unlock()
	return f.OpenFile(filepath.Join(dir, name), os.O_RDWR|os.O_CREATE)
}

// Rename implements disk.FS, within a directory.
func (f *FS) Rename(from, to string) error {
	if filepath.Dir(from) != filepath.Dir(to) {
		panic("powerfs: renamed into another directory")
	}
	return f.name(Rename, to, func(dir *node, name string) error {
		old := filepath.Base(from)
		if dir.names[old] == nil {
			return fs.ErrNotExist
		}
		dir.change(map[string]*node{name: dir.names[old], old: nil})
		return nil
	})
}

// Link implements disk.FS, within a directory.
func (f *FS) Link(from, to string) error {
	return f.name(Link, to, func(dir *node, name string) error {
		n, err := f.look(from)
		switch {
		case err != nil:
			return err
		case dir.names[name] != nil:
			return fs.ErrExist
		}
		dir.change(map[string]*node{name: n})
		return nil
	})
}

// Remove implements disk.FS.
func (f *FS) Remove(path string) error {
	return f.name(Remove, path, func(dir *node, name string) error {
		if dir.names[name] == nil {
			return fs.ErrNotExist
		}
		dir.change(map[string]*node{name: nil})
		return nil
	})
}

// ReadDir implements disk.FS.
func (f *FS) ReadDir(path string) (list []fs.DirEntry, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	dir, err := f.look(path)
	if err != nil || dir.names == nil {
		return nil, &fs.PathError{Op: "readdir", Path: path, Err: cmp.Or(err, errNoDir)}
	}
	for _, name := range slices.Sorted(maps.Keys(dir.names)) {
		list = append(list, fs.FileInfoToDirEntry(dir.names[name].info(name)))
	}
	return list, nil
}

// SyncDir implements disk.FS.
func (f *FS) SyncDir(path string) error {
	return f.do(SyncDir, path, func() error {
		dir, err := f.look(path)
		if err != nil {
			return &fs.PathError{Op: "sync", Path: path, Err: err}
		}
		dir.settle()
		return nil
	}, nil)
}

// Lock implements disk.FS. One process uses an FS at a time: no other one has it locked.
func (f *FS) Lock(path string) (io.Closer, error) { return f.OpenFile(path, os.O_RDWR|os.O_CREATE) }

// Scratch is in memory: nothing of it is left when the power is back.
func (f *FS) Scratch(_ string, size int) (b []byte, free func(), err error) {
	return make([]byte, size), func() {}, nil
}

// file is an open file.
type file struct {
	fs   *FS
	n    *node
	path string
	at   int64
}

func (f *file) Name() string { return f.path }

// Close makes nothing durable.
func (f *file) Close() error { return nil }

func (f *file) Stat() (fs.FileInfo, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if f.fs.mu.down {
		return nil, ErrPowerCut
	}
	return f.n.info(filepath.Base(f.path)), nil
}

func (f *file) ReadAt(b []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if f.fs.mu.down {
		return 0, ErrPowerCut
	}
	return bytes.NewReader(f.n.cache).ReadAt(b, off)
}

func (f *file) Read(b []byte) (int, error) {
	k, err := f.ReadAt(b, f.at)
	f.at += int64(k)
	if k > 0 && err == io.EOF {
		err = nil
	}
	return k, err
}

func (f *file) WriteAt(b []byte, off int64) (k int, err error) {
	part := func(size int) func() {
		return func() { f.n.write(b[:size], off); k = size }
	}
	all := part(len(b))
	err = f.fs.do(Write, f.path, func() error { all(); return nil }, part(len(b)/2))
	return k, err
}

func (f *file) Write(b []byte) (int, error) {
	k, err := f.WriteAt(b, f.at)
	f.at += int64(k)
	return k, err
}

func (f *file) Truncate(size int64) error {
	return f.fs.do(Truncate, f.path, func() error { f.n.truncate(int(size)); return nil }, nil)
}

func (f *file) Sync() error {
	return f.fs.do(Sync, f.path, func() error { f.n.sync(); return nil }, f.n.drop)
}
