//go:build unix

package disk

import (
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A user who keeps files to himself (umask 077, as the units of this project do) gets models that
// others cannot read: that of a private run could be read by all.
func TestFilesHaveTheUsersMode(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077))
	path := filepath.Join(t.TempDir(), "model")
	noError(t, WriteWhole(t.Context(), path, false, func(io.Writer) error { return nil }))
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}
