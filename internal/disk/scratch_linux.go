package disk

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// reservePiece is how many bytes are asked for at once: a signal ends the call, and what it got.
const reservePiece = 64 << 20

func (osFS) Scratch(dir string, size int) (b []byte, free func(), err error) {
	f, err := os.CreateTemp(dir, "tmp-*")
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = f.Close() }() // the mapping has the file for good
	if err = os.Remove(f.Name()); err == nil {
		err = reserve(f, size)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%d MB in %s for vectors of the model: %w: make room there", size/1e6, dir, err)
	}
	b, err = unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, nil, fmt.Errorf("map a file in %s: %w: choose a data directory on a local disk", dir, err)
	}
	// The addresses stay: whoever has kept a part reads zeros there.
	return b, func() { _ = unix.Madvise(b, unix.MADV_REMOVE) }, nil
}

// reserve makes all of a file's room. Where it was missing later, a write to the mapping would end
// the process.
func reserve(f *os.File, size int) error {
	var fs unix.Statfs_t
	if unix.Fstatfs(int(f.Fd()), &fs) == nil && fs.Bavail*uint64(fs.Bsize) < uint64(size) {
		return unix.ENOSPC // before the rest of the disk is taken from others
	}
	zeros := []byte(nil)
	for at := 0; at < size; {
		n := min(reservePiece, size-at)
		switch err := unix.Fallocate(int(f.Fd()), 0, int64(at), int64(n)); {
		case err == nil:
			at += n
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EOPNOTSUPP): // by this file system
			if zeros == nil {
				zeros = make([]byte, 1<<20)
			}
			n, err := f.WriteAt(zeros[:min(len(zeros), size-at)], int64(at))
			if err != nil {
				return err
			}
			at += n
		default:
			return err
		}
	}
	return nil
}
