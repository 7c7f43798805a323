//go:build cgo && !windows

package main

// #cgo CFLAGS: -I${SRCDIR}/../include -Wall -Wextra -Wno-unused-parameter -fvisibility=hidden
// #include <stdlib.h>
// #include "p2pdiloco.h"
// #include "load.h"
import "C"

import (
	"fmt"
	"io"
	"log"
	"runtime/debug"
	"unsafe"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/bridge/internal/embed"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// The library is built with -buildmode=c-shared, which needs a main that is never called.
func main() {}

var library = embed.New(environ, stderr{})

func init() {
	// keeps QUIC's advice on kernel buffers, and other output of dependencies, off the host's
	// terminal
	log.SetOutput(io.Discard)
	p2p.Quiet()
	C.p2pdiloco_loaded()
}

// environ is the host's environment now. Go's own copy was made when the library was loaded.
func environ() []string {
	var list []string
	for p := C.p2pdiloco_environ(); p != nil &&
		*p != nil; p = (**C.char)(unsafe.Add(unsafe.Pointer(p), unsafe.Sizeof(*p))) {
		list = append(list, C.GoString(*p))
	}
	return list
}

// stderr is the host's standard error. os.Stderr would end the host with SIGPIPE after its reader
// has gone.
type stderr struct{}

// Write implements io.Writer. What cannot be written is dropped.
func (stderr) Write(b []byte) (int, error) {
	C.p2pdiloco_complain((*C.char)(unsafe.Pointer(unsafe.SliceData(b))), C.size_t(len(b)))
	return len(b), nil
}

// guard.c calls everything from here on, under the header's names with Go in them, on a thread of
// the host with signals blocked.

//export p2pdilocoGoVersion
func p2pdilocoGoVersion() *C.char {
	version := "(devel)"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		version = info.Main.Version
	}
	return C.CString(fmt.Sprintf("p2pdiloco %s, protocol %s, kernel %s", version, p2pdiloco.ProtocolVersion,
		p2pdiloco.KernelVersion))
}

//export p2pdilocoGoJoin
func p2pdilocoGoJoin(c *C.struct_p2pdiloco_call, config *C.char, params *C.float, elements C.uint64_t, nowhere C.int) {
	beginWith(c, params, elements, func(v []float32) error {
		if config == nil || nowhere != 0 {
			return embed.ErrNull
		}
		node, err := library.Join(C.GoString(config), v)
		c.node = C.int64_t(node)
		return err
	})
}

//export p2pdilocoGoAnchor
func p2pdilocoGoAnchor(c *C.struct_p2pdiloco_call, node C.p2pdiloco_node, params *C.float, elements C.uint64_t,
	timeout C.int32_t,
) {
	beginWith(c, params, elements, func(v []float32) error {
		slot, err := library.Anchor(int64(node), v, int32(timeout))
		return tell(c, slot, err)
	})
}

//export p2pdilocoGoSync
func p2pdilocoGoSync(c *C.struct_p2pdiloco_call, node C.p2pdiloco_node, params *C.float, elements, weight C.uint64_t) {
	beginWith(c, params, elements, func(v []float32) error {
		return library.Sync(int64(node), v, uint64(weight))
	})
}

//export p2pdilocoGoBegin
func p2pdilocoGoBegin(c *C.struct_p2pdiloco_call, node C.p2pdiloco_node, params *C.float, elements, weight C.uint64_t) {
	beginWith(c, params, elements, func(v []float32) error {
		return library.Begin(int64(node), v, uint64(weight))
	})
}

//export p2pdilocoGoPoll
func p2pdilocoGoPoll(c *C.struct_p2pdiloco_call, node C.p2pdiloco_node, timeout C.int32_t) {
	begin(c, func() error { return library.Poll(int64(node), int32(timeout)) })
}

//export p2pdilocoGoFinish
func p2pdilocoGoFinish(c *C.struct_p2pdiloco_call, node C.p2pdiloco_node, params *C.float, elements C.uint64_t,
	timeout C.int32_t,
) {
	beginWith(c, params, elements, func(v []float32) error {
		slot, err := library.Finish(int64(node), v, int32(timeout))
		return tell(c, slot, err)
	})
}

//export p2pdilocoGoProgress
func p2pdilocoGoProgress(node C.p2pdiloco_node, steps C.uint64_t) C.int32_t {
	return C.int32_t(embed.CodeOf(library.Progress(int64(node), uint64(steps))))
}

//export p2pdilocoGoStatus
func p2pdilocoGoStatus(c *C.struct_p2pdiloco_call, node C.p2pdiloco_node) {
	begin(c, func() error {
		status, err := library.Status(int64(node))
		return write(c, status, err)
	})
}

//export p2pdilocoGoEvent
func p2pdilocoGoEvent(c *C.struct_p2pdiloco_call, node C.p2pdiloco_node, timeout C.int32_t) {
	begin(c, func() error {
		event, err := library.Event(int64(node), int32(timeout))
		return write(c, event, err)
	})
}

//export p2pdilocoGoLeave
func p2pdilocoGoLeave(c *C.struct_p2pdiloco_call, node C.p2pdiloco_node, timeout C.int32_t) {
	begin(c, func() error { return library.Leave(int64(node), int32(timeout)) })
}

//export p2pdilocoGoClose
func p2pdilocoGoClose(c *C.struct_p2pdiloco_call, node C.p2pdiloco_node) {
	begin(c, func() error { return library.Close(int64(node)) })
}

// begin does a call on a thread of Go, and then wakes the host's thread.
func begin(c *C.struct_p2pdiloco_call, call func() error) {
	go func() {
		err := call()
		if text := embed.Text(err); text != "" {
			c.error = C.CString(text)
		}
		c.code = C.int32_t(embed.CodeOf(err))
		C.p2pdiloco_done(c)
	}()
}

// beginWith is begin of a call that works in the caller's memory.
func beginWith(c *C.struct_p2pdiloco_call, params *C.float, elements C.uint64_t, call func(v []float32) error) {
	begin(c, func() error {
		v, err := embed.Vector(unsafe.Pointer(params), uint64(elements))
		if err != nil {
			return err
		}
		return call(v)
	})
}

// tell stores the slot if the caller wants it.
func tell(c *C.struct_p2pdiloco_call, slot uint64, err error) error {
	if code := embed.CodeOf(err); code == embed.OK || code == embed.Ended {
		c.slot, c.has_slot = C.uint64_t(slot), 1
	}
	return err
}

// write gives a text to C.
func write(c *C.struct_p2pdiloco_call, text string, err error) error {
	if err == nil {
		c.text = C.CString(text)
	}
	return err
}
