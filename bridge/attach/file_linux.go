package attach

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/p2pdiloco/p2pdiloco/internal/node/replica"
)

// MemoryFile is memory with a descriptor, and without a name.
type MemoryFile struct{ *os.File }

// fillPiece is how many bytes are made between two looks whether to stop.
const fillPiece = 64 << 20

// NewMemoryFile makes a file of that many bytes, whose size is fixed for good: a rank that
// truncated it would crash the node. All of it is there from the beginning, which takes half a
// second a GB. It stops when ctx ends.
func NewMemoryFile(ctx context.Context, size uint64) (*MemoryFile, error) {
	if err := fits(size, replica.FreeMemory()); err != nil {
		return nil, err
	}
	fd, err := unix.MemfdCreate("p2pdiloco-vectors", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w%s", err, lacks(err))
	}
	f := &MemoryFile{os.NewFile(uintptr(fd), "p2pdiloco-vectors")}
	if err := f.fill(ctx, size); err != nil {
		return nil, errors.Join(fmt.Errorf("%d MiB of memory to share with the trainer: %w", size>>20, err), f.Close())
	}
	return f, nil
}

// lacks says what to do on a system that gives no memory to share, as some sandboxes do not.
func lacks(err error) string {
	if !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, unix.EPERM) {
		return ""
	}
	return ": this system, or the sandbox around this process, gives no memory that a trainer's processes could " +
		"share with the node: run both outside of it, or allow them memfd_create and fallocate"
}

func (f *MemoryFile) fill(ctx context.Context, size uint64) error {
	if err := f.Truncate(int64(size)); err != nil {
		return err
	}
	fd := int(f.Fd())
	for at := uint64(0); at < size; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(fillPiece, size-at)
		switch err := unix.Fallocate(fd, 0, int64(at), int64(n)); {
		case err == nil:
			at += n
		case !errors.Is(err, unix.EINTR): // a signal came: the piece is not there
			return fmt.Errorf("fallocate: %w%s", err, lacks(err))
		}
	}
	_, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
	return os.NewSyscallError("fcntl", err)
}

// ReadOnly opens the file once more, for reading alone.
func (f *MemoryFile) ReadOnly() (*os.File, error) {
	return os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), os.O_RDONLY, 0)
}

// A memfd beyond the memory that there is does not fail: the kernel ends processes instead, also
// those of others. So what is free is looked at before.

// fits refuses a size beyond what is free in bytes.
func fits(size, free uint64) error {
	if size <= free {
		return nil
	}
	return fmt.Errorf("too little memory: a vector that is shared with the trainer takes %d MiB, and %d MiB are free "+
		"on this machine or in its cgroup: end other programs, or raise the limit", size>>20, free>>20)
}
