package memory

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// File is memory with a descriptor, and without a name.
type File struct{ *os.File }

// New makes a file of that many bytes, whose size is fixed for good: a rank that truncated it would
// crash the node. All of it is there from the beginning.
func New(size uint64) (*File, error) {
	if err := fits(size, Free()); err != nil {
		return nil, err
	}
	fd, err := unix.MemfdCreate("p2pdiloco-vectors", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	f := &File{os.NewFile(uintptr(fd), "p2pdiloco-vectors")}
	if err := f.fill(size); err != nil {
		return nil, errors.Join(fmt.Errorf("%d MiB of memory to share with the trainer: %w", size>>20, err), f.Close())
	}
	return f, nil
}

func (f *File) fill(size uint64) error {
	if err := f.Truncate(int64(size)); err != nil {
		return err
	}
	if err := unix.Fallocate(int(f.Fd()), 0, 0, int64(size)); err != nil {
		return os.NewSyscallError("fallocate", err)
	}
	_, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
	return os.NewSyscallError("fcntl", err)
}

// ReadOnly opens the file once more, for reading alone.
func (f *File) ReadOnly() (*os.File, error) {
	return os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), os.O_RDONLY, 0)
}
