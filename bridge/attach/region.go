package attach

import (
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Offset is where the elements begin in a mapping, after the words: the largest page of today's
// machines.
const Offset = 64 << 10

// Size is the size of a mapping with d elements, in bytes.
func Size(d uint64) uint64 { return Offset + (4*d+Offset-1)/Offset*Offset }

// Region is a part of this process's addresses in which a File can be mapped.
type Region struct {
	at   unsafe.Pointer
	size uint64
}

// Word is the 64-bit word at an offset below Offset that is a multiple of 8.
func (r *Region) Word(offset uint64) *atomic.Uint64 {
	if offset%8 != 0 || offset >= Offset {
		panic("memory: a word outside the words")
	}
	return (*atomic.Uint64)(unsafe.Add(r.at, offset))
}

// Vector is the d elements that follow the words.
func (r *Region) Vector(d uint64) []float32 {
	if Size(d) > r.size {
		panic("memory: a vector that is larger than its region")
	}
	return unsafe.Slice((*float32)(unsafe.Add(r.at, Offset)), d)
}

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
