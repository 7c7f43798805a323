//go:build unix

package attach

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// own makes a folder that this user alone can use, or takes it if it is there. Another user may
// have made it first, in a place that all can write to: then nothing in it is to be trusted.
func own(folder string) error {
	if err := os.Mkdir(folder, 0o700); err == nil || !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Lstat(folder)
	if err != nil {
		return err
	}
	if of, ok := info.Sys().(*syscall.Stat_t); !ok || !info.IsDir() || info.Mode().Perm() != 0o700 ||
		int(of.Uid) != os.Geteuid() {
		return fs.ErrPermission
	}
	return nil
}
