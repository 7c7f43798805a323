package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

const (
	othersWrite fs.FileMode = 0o022
	othersUse   fs.FileMode = 0o077
)

// hasModes says whether the modes of files mean what they say: Windows has other permissions.
const hasModes = runtime.GOOS != "windows"

// CheckDir refuses a directory in which other users may write, because they could put other files
// in the place of those in it. What cannot be looked at passes: what comes next says why.
func CheckDir(fsys FS, dir string) error {
	f, err := fsys.OpenFile(dir, os.O_RDONLY)
	if err != nil {
		return nil //nolint:nilerr // whoever uses the directory gets the error
	}
	info, err := f.Stat()
	_ = f.Close()
	if err != nil || !hasModes || !info.IsDir() || info.Mode()&othersWrite == 0 {
		return nil //nolint:nilerr // as above
	}
	return fmt.Errorf(
		"data directory %s can be written by other users (mode %04o), who could replace the identity and "+
			"the votes in it: run chmod go-w %s, or name a new directory in it, like %s",
		dir,
		info.Mode().Perm(),
		dir,
		filepath.Join(dir, "p2pdiloco"),
	)
}

// ErrExposed means that other users may read or write a file that holds a secret.
var ErrExposed = errors.New("it holds a secret, and other users can use it")

// ReadSecret reads a file as Read does. The error is ErrExposed if others may use the file.
func ReadSecret(fsys FS, path string, limit int64) ([]byte, error) {
	return read(fsys, path, limit, func(f File) error {
		info, err := f.Stat()
		if err != nil || !hasModes || info.Mode()&othersUse == 0 {
			return err
		}
		return fmt.Errorf("%s: %w (mode %04o): run chmod 600 %s, and replace the secret if one of them may have "+
			"read it", path, ErrExposed, info.Mode().Perm(), path)
	})
}

// read reads a file that passes a check. It refuses more than limit bytes.
func read(fsys FS, path string, limit int64, check func(File) error) ([]byte, error) {
	f, err := fsys.OpenFile(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	if err := check(f); err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("larger than %d bytes", limit)
	}
	return b, err
}
