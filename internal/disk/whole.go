package disk

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// abandoned is how long nobody has written to what a process was making that was killed.
const abandoned = time.Hour

// partSuffix ends the names of what is being made. Users keep their own files beside it, hidden
// ones with a date in the name among them: only this program gives such names.
const partSuffix = ".p2pdiloco-part"

// WriteWhole makes a file that is there whole and durable, or not at all, with the mode that new
// files of this user have. Without replace it fails with fs.ErrExist if the file exists. When ctx
// ends it stops, and leaves nothing behind. What killed processes have left of the same file goes.
func WriteWhole(ctx context.Context, path string, replace bool, write func(io.Writer) error) error {
	SweepOld(path)
	f, err := temporary(path, func(name string) (*os.File, error) {
		return os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666) // less the umask
	})
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) //nolint:errcheck // gone already if it was renamed
	if err := errors.Join(write(Until(ctx, f)), f.Sync(), f.Close(), ctx.Err()); err != nil {
		return err
	}
	if replace {
		err = os.Rename(f.Name(), path)
	} else {
		err = place(OS, f.Name(), path)
	}
	if err != nil {
		return err
	}
	return OS.SyncDir(filepath.Dir(path))
}

// TempDir makes a folder beside path, which is to be renamed to it, with the mode that new folders
// of this user have. What killed processes have left there goes.
func TempDir(path string) (string, error) {
	SweepOld(path)
	return temporary(path, func(name string) (string, error) { return name, os.Mkdir(name, 0o777) })
}

// temporary makes something new under a name that isPart knows.
func temporary[T any](path string, begin func(name string) (T, error)) (made T, err error) {
	for range 100 {
		name := "." + filepath.Base(path) + "." + strconv.FormatUint(uint64(rand.Uint32()), 10) + partSuffix
		made, err = begin(filepath.Join(filepath.Dir(path), name))
		if !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	return made, err
}

// isPart says whether temporary gives such a name for one of the name of.
func isPart(name, of string) bool {
	name, ok := strings.CutSuffix(name, partSuffix)
	return ok && isTemp(name, of)
}

// SweepOld removes what processes have left beside path that died while they made it, a file or a
// folder of files. One that was written to within the last hour may still be at it.
func SweepOld(path string) {
	dir := filepath.Dir(path)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if left := filepath.Join(dir, e.Name()); isPart(e.Name(), filepath.Base(path)) && isOld(left) {
			if e.IsDir() {
				files, _ := os.ReadDir(left)
				for _, f := range files {
					_ = os.Remove(filepath.Join(left, f.Name()))
				}
			}
			_ = os.Remove(left)
		}
	}
}

// isOld says whether nothing was written for a while to a file, or in a folder.
func isOld(path string) bool {
	all := []string{path}
	if files, err := os.ReadDir(path); err == nil {
		for _, f := range files {
			all = append(all, filepath.Join(path, f.Name()))
		}
	}
	for _, name := range all {
		info, err := os.Lstat(name)
		if err != nil || time.Since(info.ModTime()) < abandoned {
			return false
		}
	}
	return true
}
