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
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"unsafe"

	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// Bounds of what a library may say of its model.
const maxStride = 1 << 16 // bytes from tensor to tensor

// Open loads a library and makes a trainer with it, for which it has Config.Timeout. If ctx ends
// while the library makes it, Open returns, and the library goes on. From now on a crash ends this
// process by SIGABRT (debug.SetTraceback). An error of the library is a *Fault.
func Open(ctx context.Context, cfg Config) (Library, error) {
	cfg = cfg.withDefaults()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	debug.SetTraceback("crash")
	t := &libraryTrainer{cfg: cfg, stop: make(chan struct{})}
	if err := t.open(ctx); err != nil {
		t.fault = err // Close has nothing to add
		_ = t.Close()
		return nil, err
	}
	cfg.Logger.Info("trainer loaded", "library", cfg.Path, "name", t.about.Name, "tensors", len(t.layout), "elements",
		t.layout.Elements(), "types", t.about.Types, "evaluates", t.about.Evaluates, "saves", t.about.Saves)
	return t, nil
}

func (t *libraryTrainer) open(ctx context.Context) error {
	if err := t.makeDataDir(); err != nil {
		return err
	}
	record, last, err := openRecord(t.cfg.DataDir)
	if err != nil {
		return fmt.Errorf("the trainer's folder: %w", err)
	}
	t.record = record
	if last != "" {
		t.cfg.Logger.Warn("the last process ended in a call of the trainer library: it has crashed there, hung, or "+
			"was killed", "library", t.cfg.Path, "call", last)
	}
	t.thread = thread{calls: make(chan *call), ended: make(chan struct{})}
	go t.serve()
	t.watches.Go(func() { t.watch(t.stop) })
	for _, step := range []struct {
		doing string
		do    func() error
	}{
		{"load", t.load},
		{"p2pdiloco_trainer_entry", t.enter},
		{"create", t.create},
		{"layout", t.takeLayout},
		{"register_memory", t.register},
	} {
		c, err := t.begin(ctx, step.doing, step.do)
		if err != nil {
			return err
		}
		select {
		case <-c.done:
		case <-ctx.Done():
			return ctx.Err()
		}
		if c.err != nil {
			return c.err
		}
	}
	return nil
}

func (t *libraryTrainer) makeDataDir() (err error) {
	if t.cfg.DataDir == "" {
		t.cfg.DataDir, err = os.MkdirTemp("", "p2pdiloco-trainer-")
		t.temporary = err == nil
	} else if t.cfg.DataDir, err = filepath.Abs(t.cfg.DataDir); err == nil {
		err = os.MkdirAll(t.cfg.DataDir, 0o700)
	}
	if err != nil {
		return fmt.Errorf("the trainer's folder: %w", err)
	}
	return nil
}

// load opens the library.
func (t *libraryTrainer) load() error {
	// dlopen would look for a bare name among the system's libraries
	path, err := filepath.Abs(t.cfg.Path)
	if err != nil {
		return err
	}
	var why [1024]C.char
	text := C.CString(path)
	defer C.free(unsafe.Pointer(text))
	t.library = C.host_open(text, (*C.char)(unsafe.Pointer(&t.record[0])), &why[0], C.size_t(len(why)))
	if t.library == nil {
		return t.faulty("load", "%s", C.GoString(&why[0]))
	}
	return nil
}

// enter takes the library's table of functions.
func (t *libraryTrainer) enter() error {
	const doing = "p2pdiloco_trainer_entry"
	entry := C.host_entry(t.library)
	if entry == nil {
		return t.faulty(doing, "it exports no p2pdiloco_trainer_entry: it is no trainer")
	}
	a := C.host_enter(entry)
	const abi, size = C.P2PDILOCO_TRAINER_ABI, C.sizeof_p2pdiloco_trainer_api
	switch {
	case a == nil:
		return t.faulty(doing, "it says that it cannot serve trainer ABI %d", abi)
	case a.size >= 16 && a.abi != abi: // both are there
		return t.faulty(doing, "it speaks trainer ABI %d, this program %d", a.abi, abi)
	case a.size < size: // in the first ABI, no table is smaller
		return t.faulty(doing, "its table of functions has %d bytes, that of trainer ABI %d at least %d", a.size, abi,
			size)
	}
	for name, missing := range map[string]bool{
		"create": a.create == nil, "last_error": a.last_error == nil, "layout": a.layout == nil, "init": a.init == nil,
		"load": a.load == nil, "run": a.run == nil, "cancel": a.cancel == nil, "export_params": a.export_params == nil,
		"destroy": a.destroy == nil,
	} {
		if missing {
			return t.faulty(doing, "its table of functions lacks %s", name)
		}
	}
	t.api = new(C.p2pdiloco_trainer_api) // a copy
	*t.api = *a
	t.about = About{
		ExportsGradient: a.export_gradient != nil, Evaluates: a.evaluate != nil,
		Saves: a.save != nil && a.restore != nil,
	}
	if a.name != nil {
		t.about.Name = oneLine(C.GoString(a.name))
	}
	return nil
}

func (t *libraryTrainer) create() error {
	config, dir := C.CString(t.cfg.Config), C.CString(t.cfg.DataDir)
	defer C.free(unsafe.Pointer(config))
	defer C.free(unsafe.Pointer(dir))
	code := C.host_create(t.api, config, dir, &t.trainer)
	if code == C.P2PDILOCO_TRAINER_OK && t.trainer == nil {
		return t.faulty("create", "create says that it made a trainer, and gives none")
	}
	return t.must("create", code)
}

// takeLayout copies the library's list of tensors.
func (t *libraryTrainer) takeLayout() error {
	var list *C.p2pdiloco_trainer_tensor
	var count C.uint64_t
	if err := t.must("layout", C.host_layout(t.api, t.trainer, &list, &count)); err != nil {
		return err
	}
	if count == 0 || count > trainer.MaxTensors || list == nil {
		return t.faulty("layout", "its layout has %d tensors at address %p: 1 to %d are allowed", count, list,
			trainer.MaxTensors)
	}
	if list.size < C.sizeof_p2pdiloco_trainer_tensor || list.size > maxStride {
		return t.faulty("layout", "tensor 0 of its layout says that it has %d bytes, ABI %d's has %d", list.size,
			C.P2PDILOCO_TRAINER_ABI, C.sizeof_p2pdiloco_trainer_tensor)
	}
	types := make([]int, 4)
	for i := range uint64(count) {
		c := (*C.p2pdiloco_trainer_tensor)(unsafe.Add(unsafe.Pointer(list), i*uint64(list.size)))
		one := trainer.Tensor{}
		if c.name != nil {
			one.Name = C.GoStringN(c.name, C.int(C.strnlen(c.name, trainer.MaxTensorName+1)))
		}
		switch {
		case c.dtype < C.P2PDILOCO_F32 || c.dtype > C.P2PDILOCO_F16:
			return t.faulty("layout", "tensor %d: %.40q has the unknown type %d: P2PDILOCO_F32, _BF16 or _F16 are "+
				"allowed", i, one.Name, c.dtype)
		case c.dims > trainer.MaxDims:
			return t.faulty("layout", "tensor %d: %.40q has %d dimensions: at most %d are allowed", i, one.Name, c.dims,
				trainer.MaxDims)
		}
		for _, d := range c.shape[:c.dims] {
			one.Shape = append(one.Shape, uint64(d))
		}
		types[c.dtype]++
		t.layout = append(t.layout, one)
	}
	if err := t.layout.Validate(); err != nil {
		return t.faulty("layout", "%w", err)
	}
	t.about.Types = typesOf(types)
	return nil
}

func typesOf(counts []int) (text string) {
	for kind, name := range []string{1: "f32", 2: "bf16", 3: "f16"} {
		if n := counts[kind]; n > 0 && text != "" {
			text += fmt.Sprintf(", %d %s", n, name)
		} else if n > 0 {
			text = fmt.Sprintf("%d %s", n, name)
		}
	}
	return text
}

// faulty is a fault after which only Close may follow.
func (t *libraryTrainer) faulty(doing, format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	return &Fault{Library: t.cfg.Path, Doing: doing, Problem: oneLine(err.Error()), Err: errors.Unwrap(err)}
}

// must takes what a function of the library returned.
func (t *libraryTrainer) must(doing string, code C.int32_t) error {
	switch code {
	case C.P2PDILOCO_TRAINER_OK:
		return nil
	case C.P2PDILOCO_TRAINER_CANCELLED:
		return t.faulty(doing, "it reports that it was cancelled, but no cancel was sent")
	}
	return t.faulty(doing, "%s", t.reason())
}

// reason is the library's own text.
func (t *libraryTrainer) reason() string {
	text := ""
	if s := C.host_last_error(t.api, t.trainer); s != nil {
		text = oneLine(C.GoString(s))
	}
	if text == "" {
		text = "it failed and gives no reason (last_error)"
	}
	return text
}
