package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/p2pdiloco/p2pdiloco/internal/node/datadir"
)

// Host is the machine that this process runs on.
type Host struct{}

var _ Machine = Host{}

// Sync writes as much as some votes, and then as much as an outcome.
const (
	smallWrites = 5
	smallWrite  = 4 << 10
	largeWrite  = 16 << 20
	chunk       = 1 << 20
)

// Sync implements Machine.
func (Host) Sync(dir string) (small time.Duration, rate float64, err error) {
	f, err := os.CreateTemp(existing(dir), ".doctor-*")
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	state, err := os.CreateTemp(filepath.Join(dir, datadir.StateFolder), ".doctor-*")
	if err == nil {
		err = errors.Join(state.Close(), os.Remove(state.Name()))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, 0, err
	}
	var took []time.Duration
	for range smallWrites {
		t, err := written(f, smallWrite)
		if err != nil {
			return 0, 0, err
		}
		took = append(took, t)
	}
	slices.Sort(took)
	t, err := written(f, largeWrite)
	return took[len(took)/2], largeWrite / max(t, time.Microsecond).Seconds(), err
}

// written writes n bytes and waits until they are on the disk.
func written(f *os.File, n int) (time.Duration, error) {
	began := time.Now()
	for b := make([]byte, min(n, chunk)); n > 0; n -= len(b) {
		if _, err := f.Write(b); err != nil {
			return 0, err // the error names the file
		}
	}
	err := f.Sync()
	return time.Since(began), err
}

// existing is dir, or the nearest folder above it that exists.
func existing(dir string) string {
	dir, err := filepath.Abs(dir)
	for err == nil {
		if info, err := os.Stat(dir); err == nil && info.IsDir() || dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir)
	}
	return dir
}

// Disk implements Machine.
func (Host) Disk(dir string) (free uint64, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(existing(dir), &s); err != nil {
		return 0, fmt.Errorf("free space of %s: %w", dir, err)
	}
	return uint64(s.Bavail) * uint64(s.Bsize), nil //nolint:unconvert // signed on some systems
}

// Files implements Machine.
func (Host) Files() (uint64, error) {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil {
		return 0, fmt.Errorf("limit of open files: %w", err)
	}
	return uint64(r.Cur), nil //nolint:unconvert // signed on some systems
}
