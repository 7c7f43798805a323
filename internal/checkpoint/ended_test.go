package checkpoint

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
)

// An export that is not wanted any more ends with the checkpoint that it reads. It is not a fault
// of the checkpoint, and no older one is tried.
func TestLoadingEndsWithItsContext(t *testing.T) {
	dir := t.TempDir()
	s, _ := testStore(t, dir)
	save(t, s, 1)
	save(t, s, 2)
	var log bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	reader, err := Open(dir, Config{
		Shape: testShape, FrameBytes: testFrame, ReadOnly: true, FS: disk.FSUntil(ctx, disk.OS),
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	_, err = reader.LoadNewest(nil, blank()...)
	if !errors.Is(err, context.Canceled) || errors.Is(err, ErrNotHeld) || log.Len() > 0 {
		t.Errorf("%v; the log says %q", err, &log)
	}
}
