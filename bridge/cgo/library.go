//go:build cgo && unix

package cgo

// #cgo CFLAGS: -std=c11 -Wall -Wextra -I${SRCDIR}/../include
// #cgo linux CFLAGS: -D_GNU_SOURCE
// #cgo linux LDFLAGS: -ldl
// #include <stdlib.h>
// #include <string.h>
// #include "host.h"
import "C"

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// library is a Library.
type library struct {
	cfg       Config
	temporary bool // the data directory
	h         *C.struct_host
	about     About
	layout    trainer.Layout
	record    *os.File // the name of the open call

	calls     chan *call
	newest    *call
	cancelled atomic.Bool // the newest call

	memory     []byte // mapped, with start and local
	registered bool   // with the library
	given      bool   // memory went to a node
	fault      error  // the trainer has failed; every later call returns it
	closed     bool
}

// maxStride bounds the bytes from tensor to tensor of a library's list.
const maxStride = 1 << 16

// Open loads a library and makes a trainer with it, for which each call has Config.Timeout. If ctx
// ends while the library makes it, Open returns, and the library goes on. From now on a crash ends
// this process by SIGABRT (debug.SetTraceback). An error of the library is a *Fault.
func Open(ctx context.Context, cfg Config) (Library, error) {
	cfg = cfg.withDefaults()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	debug.SetTraceback("crash")
	l := &library{cfg: cfg, calls: make(chan *call), h: (*C.struct_host)(C.calloc(1, C.sizeof_struct_host))}
	go l.serve()
	if err := l.open(ctx); err != nil {
		l.fault = err // Close has nothing to add
		patience := min(closeGrace, cfg.Timeout)
		if ctx.Err() != nil {
			patience = 0
		}
		_ = l.close(patience)
		return nil, err
	}
	cfg.Logger.Info("trainer loaded", "library", cfg.Path, "name", l.about.Name, "tensors", len(l.layout), "elements",
		l.layout.Elements(), "types", l.about.Types, "evaluates", l.about.Evaluates, "saves", l.about.Saves)
	return l, nil
}

func (l *library) open(ctx context.Context) error {
	if err := l.prepare(); err != nil {
		return fmt.Errorf("the trainer's folder: %w", err)
	}
	for _, step := range []struct {
		doing string
		do    func() error
	}{
		{"load", l.load},
		{"p2pdiloco_trainer_entry", l.enter},
		{"create", l.create},
		{"layout", l.takeLayout},
		{"register_memory", l.register},
	} {
		c, err := l.begin(ctx, step.doing, step.do)
		if err == nil {
			err = l.wait(ctx, c, nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// prepare makes the folder and the record, and says where the last process has ended.
func (l *library) prepare() (err error) {
	if l.cfg.DataDir == "" {
		l.cfg.DataDir, err = os.MkdirTemp("", "p2pdiloco-trainer-")
		l.temporary = err == nil
	}
	// dlopen would look for a bare name among the system's libraries
	path, pathErr := filepath.Abs(l.cfg.Path)
	dir, dirErr := filepath.Abs(l.cfg.DataDir)
	if err = errors.Join(err, pathErr, dirErr); err != nil {
		return err
	}
	l.h.path, l.h.data_dir, l.h.config = C.CString(path), C.CString(dir), C.CString(l.cfg.Config)
	if err = os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if last := lastCall(dir); last != "" {
		l.cfg.Logger.Warn("the last process ended in a call of the trainer library: it has crashed there, hung, or "+
			"was killed", "library", l.cfg.Path, "call", last)
	}
	l.record, err = os.Create(filepath.Join(dir, "call"))
	return err
}

// free gives back what the library does not use any more.
func (l *library) free() (err error) {
	for _, text := range []*C.char{l.h.path, l.h.data_dir, l.h.config} {
		C.free(unsafe.Pointer(text))
	}
	C.free(unsafe.Pointer(l.h))
	if l.memory != nil {
		err = unix.Munmap(l.memory)
	}
	if l.record != nil {
		err = errors.Join(err, l.record.Close())
	}
	if l.temporary {
		err = errors.Join(err, os.RemoveAll(l.cfg.DataDir))
	}
	return err
}

func (l *library) load() error { return l.must("load", l.host(C.HOST_DLOPEN, 0, 0, nil)) }

// enter takes the library's table of functions.
func (l *library) enter() error {
	const doing, abi, size = "p2pdiloco_trainer_entry", C.P2PDILOCO_TRAINER_ABI, C.sizeof_p2pdiloco_trainer_api
	code, a := l.host(C.HOST_ENTRY, 0, 0, nil), &l.h.api
	switch {
	case code == 2:
		return l.faulty(doing, "it says that it cannot serve trainer ABI %d", abi)
	case code != 0:
		return l.must(doing, code)
	case a.size > 0 && a.abi != abi:
		return l.faulty(doing, "it speaks trainer ABI %d, this program %d", a.abi, abi)
	case a.size < size: // in the first ABI, no table is smaller
		return l.faulty(doing, "its table of functions has %d bytes, ABI %d's has at least %d", a.size, abi, size)
	}
	for name, f := range map[string]*[0]byte{
		"create": a.create, "last_error": a.last_error, "layout": a.layout, "init": a.init, "load": a.load,
		"run": a.run, "cancel": a.cancel, "export_params": a.export_params, "destroy": a.destroy,
	} {
		if f == nil {
			return l.faulty(doing, "its table of functions lacks %s", name)
		}
	}
	l.about = About{
		ExportsGradient: a.export_gradient != nil, Evaluates: a.evaluate != nil,
		Saves: a.save != nil && a.restore != nil,
	}
	if a.name != nil {
		l.about.Name = oneLine(C.GoString(a.name))
	}
	return nil
}

func (l *library) create() error {
	if err := l.must("create", l.host(C.HOST_CREATE, 0, 0, nil)); err != nil || l.h.trainer != nil {
		return err
	}
	return l.faulty("create", "create says that it made a trainer, and gives none")
}

// takeLayout copies the library's list of tensors.
func (l *library) takeLayout() error {
	if err := l.must("layout", l.host(C.HOST_LAYOUT, 0, 0, nil)); err != nil {
		return err
	}
	list, count := l.h.tensors, uint64(l.h.count)
	if count == 0 || count > trainer.MaxTensors || list == nil {
		return l.faulty("layout", "its layout has %d tensors at address %p: 1 to %d are allowed", count, list,
			trainer.MaxTensors)
	}
	if list.size < C.sizeof_p2pdiloco_trainer_tensor || list.size > maxStride {
		return l.faulty("layout", "tensor 0 of its layout says that it has %d bytes, ABI %d's has %d", list.size,
			C.P2PDILOCO_TRAINER_ABI, C.sizeof_p2pdiloco_trainer_tensor)
	}
	types := []struct {
		name  string
		count int
	}{{"", 0}, {"f32", 0}, {"bf16", 0}, {"f16", 0}}
	for i := range count {
		c := (*C.p2pdiloco_trainer_tensor)(unsafe.Add(unsafe.Pointer(list), i*uint64(list.size)))
		one := trainer.Tensor{}
		if c.name != nil {
			one.Name = C.GoStringN(c.name, C.int(C.strnlen(c.name, trainer.MaxTensorName+1)))
		}
		if c.dtype == 0 || int(c.dtype) >= len(types) || c.dims > trainer.MaxDims {
			return l.faulty("layout", "tensor %d: %.40q has type %d and %d dimensions: P2PDILOCO_F32, _BF16 or _F16, "+
				"and at most %d dimensions are allowed", i, one.Name, c.dtype, c.dims, trainer.MaxDims)
		}
		for _, d := range c.shape[:c.dims] {
			one.Shape = append(one.Shape, uint64(d))
		}
		types[c.dtype].count++
		l.layout = append(l.layout, one)
	}
	for _, kind := range types {
		if kind.count > 0 {
			l.about.Types = strings.TrimPrefix(fmt.Sprintf("%s, %d %s", l.about.Types, kind.count, kind.name), ", ")
		}
	}
	if err := l.layout.Validate(); err != nil {
		return l.faulty("layout", "%w", err)
	}
	return nil
}

// register maps the memory of the node's two vectors, outside Go's heap, and announces it: a
// library can page-lock it, so that copies run beside other work. It costs nothing before it is
// written to.
func (l *library) register() (err error) {
	l.memory, err = unix.Mmap(-1, 0, 2*l.vectorBytes(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return l.faulty("register_memory", "two vectors of %d bytes: %w", l.vectorBytes(), err)
	}
	if l.h.api.register_memory == nil {
		return nil
	}
	l.registered = true
	return l.must("register_memory", l.host(C.HOST_REGISTER, 0, len(l.memory), l.base()))
}

// destroy is what Close calls.
func (l *library) destroy() (err error) {
	if l.registered && l.fault == nil && l.h.api.unregister_memory != nil {
		err = l.must("unregister_memory", l.host(C.HOST_UNREGISTER, 0, 0, l.base()))
	}
	return errors.Join(err, l.must("destroy", l.host(C.HOST_DESTROY, 0, 0, nil)))
}

func (l *library) base() unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(l.memory)) }

// vectorBytes is the place of a vector, in whole pages.
func (l *library) vectorBytes() int {
	page := os.Getpagesize()
	return (4*int(l.layout.Elements()) + page - 1) / page * page
}

// faulty is a fault after which only Close may follow.
func (l *library) faulty(doing, format string, args ...any) *Fault {
	err := fmt.Errorf(format, args...)
	return &Fault{Library: l.cfg.Path, Doing: doing, Problem: oneLine(err.Error()), Err: errors.Unwrap(err)}
}

// must takes what a function of the library returned.
func (l *library) must(doing string, code C.int32_t) error {
	switch code {
	case C.P2PDILOCO_TRAINER_OK:
		return nil
	case C.P2PDILOCO_TRAINER_CANCELLED:
		if l.cancelled.Load() {
			return context.Canceled
		}
		return l.faulty(doing, "it reports that it was cancelled, but no cancel was sent")
	}
	text := ""
	if s := C.host_error(l.h); s != nil {
		text = oneLine(C.GoString(s))
	}
	return l.faulty(doing, "%s", cmp.Or(text, "it failed and gives no reason (last_error)"))
}
