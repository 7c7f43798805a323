package plugin

import (
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"
)

// memory is mapped by this process and its host:
//
//	page 0      steps_done, a 64-bit word that the trainer writes
//	then        start: the anchor that was loaded last, D elements
//	then        local: parameters or pseudo-gradient, D elements
//
// Only one of the two uses a vector at a time: the host does while a request that names the vector
// is under way.
type memory struct {
	file         *os.File
	mapped       []byte
	start, local []float32
}

// Each part begins at a multiple of memoryPage, the largest page of today's machines.
const memoryPage = 64 << 10

func roundUp(n uint64) uint64 { return (n + memoryPage - 1) / memoryPage * memoryPage }

// offsets are the positions of the vectors of d elements, and the total size.
func offsets(d uint64) (start, local, total uint64) {
	vector := roundUp(4 * d)
	return memoryPage, memoryPage + vector, memoryPage + 2*vector
}

// newMemory makes a file without a name and of size 0.
func newMemory() (*memory, error) {
	f, err := anonymousFile()
	if err != nil {
		return nil, fmt.Errorf("memory to share with the trainer: %w", err)
	}
	return &memory{file: f}, nil
}

// size makes room for vectors of d elements and maps the file.
func (m *memory) size(d uint64) (err error) {
	start, local, total := offsets(d)
	if err = setSize(m.file, int64(total)); err == nil {
		m.mapped, err = mapFile(m.file, int(total))
	}
	if err != nil {
		return fmt.Errorf("%d MiB of memory to share with the trainer: %w", total>>20, err)
	}
	vector := func(at uint64) []float32 { return unsafe.Slice((*float32)(unsafe.Pointer(&m.mapped[at])), d) }
	m.start, m.local = vector(start), vector(local)
	return nil
}

// steps is the word in which the trainer counts its steps.
func (m *memory) steps() *atomic.Uint64 { return (*atomic.Uint64)(unsafe.Pointer(&m.mapped[0])) }

// close unmaps the vectors, which must not be used any more.
func (m *memory) close() (err error) {
	if m.mapped != nil {
		err = unmap(m.mapped)
		m.mapped, m.start, m.local = nil, nil, nil
	}
	_ = m.file.Close()
	return err
}

// same says whether two vectors are the same memory.
func same(a, b []float32) bool { return len(a) == len(b) && len(a) > 0 && &a[0] == &b[0] }
