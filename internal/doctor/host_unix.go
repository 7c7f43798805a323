//go:build linux || darwin || freebsd

package doctor

import (
	"fmt"

	"golang.org/x/sys/unix"
)

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
