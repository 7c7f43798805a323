package disk

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// linkless is a file system without hard links, as exFAT and many network and FUSE mounts are.
type linkless struct{ FS }

func (linkless) Link(from, to string) error {
	return &os.LinkError{Op: "link", Old: from, New: to, Err: syscall.EPERM}
}

// A data directory can be on a file system without hard links. None could be made there.
func TestCreateNeverReplaces(t *testing.T) {
	for _, fsys := range []FS{OS, linkless{OS}} {
		path := filepath.Join(t.TempDir(), "sub", "file")
		noError(t, Create(fsys, path, []byte("first")))
		if err := Create(fsys, path, []byte("second")); !errors.Is(err, fs.ErrExist) {
			t.Errorf("creating what exists: %v", err)
		}
		holds(t, path, "first")
	}
}

func holds(t *testing.T, path, want string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil || string(b) != want {
		t.Errorf("%s holds %q, not %q: %v", path, b, want, err)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("%v beside it, %v", entries, err)
	}
}

// A file whose writing is interrupted is not there, and neither is a part of it: parts of models
// filled disks, under names that ls does not show. What a killed process has left goes at the next
// time, and what another process is writing stays, and what is the user's: a hidden file with a
// date in its name.
func TestAnInterruptedFileLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "model")
	ctx, cancel := context.WithCancel(t.Context())
	err := WriteWhole(ctx, path, false, func(w io.Writer) error {
		if _, err := w.Write(make([]byte, 3*atOnce)); err != nil {
			return err
		}
		cancel()
		n, err := w.Write(make([]byte, 3*atOnce))
		if n > 0 {
			t.Errorf("%d bytes more", n)
		}
		return err
	})
	if entries, _ := os.ReadDir(dir); !errors.Is(err, context.Canceled) || len(entries) > 0 {
		t.Errorf("%v, and there is %v", err, entries)
	}
	dead, lives := filepath.Join(dir, ".model.1"+partSuffix), filepath.Join(dir, ".model.2"+partSuffix)
	users := filepath.Join(dir, ".model.20240101")
	long := time.Now().Add(-2 * abandoned)
	for _, name := range []string{dead, lives, users} {
		noError(t, os.WriteFile(name, nil, 0o600))
		if name != lives {
			noError(t, os.Chtimes(name, long, long))
		}
	}
	write := func(w io.Writer) error { _, err := io.WriteString(w, "all"); return err }
	noError(t, WriteWhole(t.Context(), path, false, write))
	if err := WriteWhole(t.Context(), path, false, write); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second file of the name: %v", err)
	}
	for _, stays := range []string{lives, users} {
		if err := os.Remove(stays); err != nil {
			t.Errorf("what another process writes, or the user keeps: %v", err)
		}
	}
	holds(t, path, "all")
}
