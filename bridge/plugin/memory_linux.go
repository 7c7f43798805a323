package plugin

import (
	"os"

	"golang.org/x/sys/unix"
)

func anonymousFile() (*os.File, error) {
	fd, err := unix.MemfdCreate("p2pdiloco-vectors", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	return os.NewFile(uintptr(fd), "p2pdiloco-vectors"), nil
}

// setSize fixes the size for good: otherwise a library that truncated the file would crash the
// peer.
func setSize(f *os.File, size int64) error {
	if err := f.Truncate(size); err != nil {
		return err
	}
	_, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
	return os.NewSyscallError("fcntl", err)
}
