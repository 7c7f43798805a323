// Package disk has what the parts that keep files share: the file system as an interface, writes
// that are whole and durable or did not happen (Create, Replace), bounded reads (Read), and the
// lock that keeps a second process out of a directory.
package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/gofrs/flock"
)

// FS is a file system, as far as the stores use one. OS is the real one. Tests use one that loses
// power (powerfs). Everything that is not synced may be lost. Sync of a file makes its bytes
// durable, and SyncDir the names in a directory.
type FS interface {
	// Mkdir makes one directory, for this user alone. The error is fs.ErrExist if the name is
	// taken.
	Mkdir(dir string) error
	// OpenFile opens a file with the flags of package os. A new file is for this user alone.
	OpenFile(name string, flag int) (File, error)
	// CreateTemp makes a new file in dir, for this user alone, with a random string in place of the
	// pattern's "*".
	CreateTemp(dir, pattern string) (File, error)
	// Rename gives a file another name. It replaces a file of that name in one step.
	Rename(from, to string) error
	// Link gives a file a second name. The error is fs.ErrExist if the name is taken.
	Link(from, to string) error
	Remove(name string) error
	// ReadDir lists a directory, sorted by name.
	ReadDir(dir string) ([]fs.DirEntry, error)
	// SyncDir makes the names in a directory durable, those of removed files included.
	SyncDir(dir string) error
	// Lock takes the lock file at path, and makes it if it is missing. The error is ErrLocked while
	// another process has it. Closing frees the lock, and so does the end of the process, however
	// it ends.
	Lock(path string) (io.Closer, error)
	// Scratch returns size zeros that lie in a file of dir without a name: the system writes them
	// there where it has no memory for them, and nobody finds them after the process. free gives
	// the room back, and leaves zeros. They are in memory alone where a system cannot do that.
	Scratch(dir string, size int) (b []byte, free func(), err error)
}

// File is an open file, as *os.File is.
type File interface {
	io.Reader
	io.ReaderAt
	io.Writer
	io.WriterAt
	io.Closer
	Name() string
	Stat() (fs.FileInfo, error)
	Truncate(size int64) error
	// Sync makes the file's bytes and its size durable. After an error nobody knows which bytes are
	// durable, and a second call may succeed without making them so.
	Sync() error
}

// ErrLocked is what FS.Lock returns while another process has the lock.
var ErrLocked = errors.New("in use by another process")

// OS is the file system of the operating system.
var OS FS = osFS{}

type osFS struct{}

func (osFS) Mkdir(dir string) error                    { return os.Mkdir(dir, 0o700) }
func (osFS) Rename(from, to string) error              { return os.Rename(from, to) }
func (osFS) Link(from, to string) error                { return os.Link(from, to) }
func (osFS) Remove(name string) error                  { return os.Remove(name) }
func (osFS) ReadDir(dir string) ([]fs.DirEntry, error) { return os.ReadDir(dir) }

func (osFS) OpenFile(name string, flag int) (File, error) {
	return orNil(os.OpenFile(name, flag, 0o600))
}

func (osFS) CreateTemp(dir, pattern string) (File, error) {
	return orNil(os.CreateTemp(dir, pattern)) // mode 0600
}

// orNil keeps a nil *os.File from becoming a File that is not nil.
func orNil(f *os.File, err error) (File, error) {
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (osFS) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	if err := d.Sync(); err != nil {
		_ = d.Close()
		return err
	}
	return d.Close()
}

func (osFS) Lock(path string) (io.Closer, error) {
	l := flock.New(path, flock.SetPermissions(0o600))
	locked, err := l.TryLock()
	switch {
	case errors.Is(err, errors.ErrUnsupported), errors.Is(err, syscall.ENOLCK):
		return nil, fmt.Errorf("lock %s: %w: this file system has no locks, and without one a second process could "+
			"use the same files: choose a directory on a local disk", path, err)
	case err != nil:
		return nil, fmt.Errorf("lock %s: %w: make its directory writable for this user, or choose another one", path,
			err)
	case !locked:
		return nil, ErrLocked
	}
	return l, nil
}
