package attach

import (
	"sync/atomic"
	"unsafe"
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
