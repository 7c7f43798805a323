//go:build cgo && unix

package cgo

// #include "host.h"
import "C"

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// register maps the memory of the node's two vectors, outside Go's heap, and announces it: a
// library can page-lock it, so that copies run beside other work. It costs nothing before it is
// written to.
func (t *libraryTrainer) register() (err error) {
	t.memory, err = unix.Mmap(-1, 0, 2*t.vectorBytes(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return t.faulty("register_memory", "two vectors of %d bytes: %w", t.vectorBytes(), err)
	}
	if t.api.register_memory == nil {
		return nil
	}
	t.registered = true
	return t.must("register_memory", C.host_register(t.api, t.trainer, t.base(), C.uint64_t(len(t.memory))))
}

func (t *libraryTrainer) unregister() error {
	return t.must("unregister_memory", C.host_unregister(t.api, t.trainer, t.base()))
}

func (t *libraryTrainer) base() unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(t.memory)) }

// vectorBytes is the place of a vector, in whole pages.
func (t *libraryTrainer) vectorBytes() int {
	page := os.Getpagesize()
	return (4*int(t.layout.Elements()) + page - 1) / page * page
}

// MakeVectors gives the first caller the memory that the library knows, so that vectors need not be
// copied a second time. That memory lasts until Close. Later callers get ordinary memory.
func (t *libraryTrainer) MakeVectors(n int) (start, local []float32, err error) {
	if err := t.usable(); err != nil {
		return nil, nil, err
	}
	if n != int(t.layout.Elements()) || t.given {
		return make([]float32, n), make([]float32, n), nil
	}
	t.given = true
	start = unsafe.Slice((*float32)(t.base()), n)
	local = unsafe.Slice((*float32)(unsafe.Add(t.base(), t.vectorBytes())), n)
	return start, local, nil
}

// finite refuses a NaN, an infinity or a value that is too large in v. begin is the element of the
// flat vector at which v begins.
func (t *libraryTrainer) finite(doing string, v []float32, begin int) error {
	i := kernel.Bounded(v)
	if i < 0 {
		return nil
	}
	name, first := tensorAt(t.layout, begin+i)
	return &Fault{
		Library: t.cfg.Path, Doing: doing, Err: trainer.ErrNotFinite, stands: true,
		Problem: fmt.Sprintf("element %d (tensor %q, element %d) is %v", begin+i, name, begin+i-first, v[i]),
	}
}

// tensorAt names the tensor that an element of the flat vector belongs to, and where that begins.
func tensorAt(l trainer.Layout, element int) (name string, first int) {
	for _, tensor := range l {
		n := int(tensor.Elements())
		if element < first+n {
			return tensor.Name, first
		}
		first += n
	}
	return "", 0
}
