//go:build unix

package attach

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// ReserveRegion takes addresses without memory.
func ReserveRegion(size uint64) (*Region, error) {
	at, err := unix.MmapPtr(-1, 0, nil, uintptr(size), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, fmt.Errorf("%d MiB of addresses: %w", size>>20, os.NewSyscallError("mmap", err))
	}
	return &Region{at, size}, nil
}

// Map puts a file in the place of what was mapped before.
func (r *Region) Map(f *MemoryFile) error {
	_, err := unix.MmapPtr(int(f.Fd()), 0, r.at, uintptr(r.size), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED|unix.MAP_FIXED)
	return os.NewSyscallError("mmap", err)
}

// Close gives the addresses back. Slices of the region must not be used any more.
func (r *Region) Close() error {
	return os.NewSyscallError("munmap", unix.MunmapPtr(r.at, uintptr(r.size)))
}
