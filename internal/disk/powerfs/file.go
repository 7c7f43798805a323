package powerfs

import (
	"io"
	"io/fs"
	"path/filepath"
	"time"
)

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
	return info{filepath.Base(f.path), f.n}, nil
}

func (f *file) ReadAt(b []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	switch {
	case f.fs.mu.down:
		return 0, ErrPowerCut
	case off >= int64(len(f.n.cache)):
		return 0, io.EOF
	}
	k := copy(b, f.n.cache[off:])
	if k < len(b) {
		return k, io.EOF
	}
	return k, nil
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

// info describes a node.
type info struct {
	name string
	n    *node
}

func (i info) Name() string     { return i.name }
func (i info) Size() int64      { return int64(len(i.n.cache)) }
func (i info) IsDir() bool      { return i.n.names != nil }
func (i info) Sys() any         { return nil }
func (info) ModTime() time.Time { return time.Time{} }

func (i info) Mode() fs.FileMode {
	if i.IsDir() {
		return fs.ModeDir | 0o700
	}
	return 0o600
}
