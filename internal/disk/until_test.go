package disk

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// endsAfter ends a context at a read.
type endsAfter struct {
	File
	end context.CancelFunc
}

func (e endsAfter) ReadAt(b []byte, at int64) (int, error) {
	e.end()
	return e.File.ReadAt(b, at)
}

// Reading a model takes minutes: it ends soon after its context has, also in the middle of one
// tensor, and also where it goes through the file system of a store.
func TestReadingEndsWithItsContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model")
	noError(t, os.WriteFile(path, make([]byte, 3*atOnce+1), 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f, err := FSUntil(ctx, OS).OpenFile(path, os.O_RDONLY)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all := make([]byte, 3*atOnce+1)
	if n, err := f.ReadAt(all, 0); n != len(all) || err != nil {
		t.Fatalf("%d bytes, %v", n, err)
	}
	if _, err := io.ReadFull(f, all); err != nil {
		t.Fatal(err)
	}
	if n, err := f.ReadAt(all, atOnce); n != 2*atOnce+1 || !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %d bytes, %v", n, err)
	}
	n, err := (fileUntil{endsAfter{f, cancel}, ctx}).ReadAt(all, 0)
	if n > atOnce || !errors.Is(err, context.Canceled) {
		t.Errorf("%d bytes, %v", n, err)
	}
	if _, err := f.Read(all); !errors.Is(err, context.Canceled) {
		t.Errorf("a store's file: %v", err)
	}
}
