//go:build cgo

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

// The library is told with -buildmode=c-shared, and its main is never called.
func main() {}

var library = embed.New(environ, stderr{})

func init() {
	log.SetOutput(io.Discard) // QUIC's advice on kernel buffers, and what else the dependencies would tell the host's terminal
	p2p.Quiet()
	C.p2pdiloco_loaded()
}

// environ is the host's environment now. Go's own copy is of when the library was loaded.
func environ() []string {
	var list []string
	for p := C.p2pdiloco_environ(); p != nil && *p != nil; p = (**C.char)(unsafe.Add(unsafe.Pointer(p), unsafe.Sizeof(*p))) {
		list = append(list, C.GoString(*p))
	}
	return list
}

// stderr is the host's standard error. os.Stderr would end the host with SIGPIPE if nobody reads it any more.
type stderr struct{}

// Write implements io.Writer. What cannot be written is dropped.
func (stderr) Write(b []byte) (int, error) {
	C.p2pdiloco_complain((*C.char)(unsafe.Pointer(unsafe.SliceData(b))), C.size_t(len(b)))
	return len(b), nil
}

// Everything from here on is called by guard.c, under the names of the header with Go in them.

//export p2pdilocoGoVersion
func p2pdilocoGoVersion() *C.char {
	version := "(devel)"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		version = info.Main.Version
	}
	return C.CString(fmt.Sprintf("p2pdiloco %s, protocol %s, kernel %s", version, p2pdiloco.ProtocolVersion, p2pdiloco.KernelVersion))
}

//export p2pdilocoGoJoin
func p2pdilocoGoJoin(config *C.char, params *C.float, elements C.uint64_t, node *C.p2pdiloco_node, text **C.char) C.int32_t {
	if config == nil || node == nil {
		return done(embed.ErrNull, text)
	}
	*node = 0
	v, err := vector(params, elements)
	if err == nil {
		var handle int64
		handle, err = library.Join(C.GoString(config), v)
		*node = C.p2pdiloco_node(handle)
	}
	return done(err, text)
}

//export p2pdilocoGoAnchor
func p2pdilocoGoAnchor(node C.p2pdiloco_node, params *C.float, elements C.uint64_t, timeout C.int32_t, slot *C.uint64_t, text **C.char) C.int32_t {
	v, err := vector(params, elements)
	if err == nil {
		var at uint64
		at, err = library.Anchor(int64(node), v, int32(timeout))
		tell(slot, at, err)
	}
	return done(err, text)
}

//export p2pdilocoGoSync
func p2pdilocoGoSync(node C.p2pdiloco_node, params *C.float, elements, weight C.uint64_t, text **C.char) C.int32_t {
	v, err := vector(params, elements)
	if err == nil {
		err = library.Sync(int64(node), v, uint64(weight))
	}
	return done(err, text)
}

//export p2pdilocoGoBegin
func p2pdilocoGoBegin(node C.p2pdiloco_node, params *C.float, elements, weight C.uint64_t, text **C.char) C.int32_t {
	v, err := vector(params, elements)
	if err == nil {
		err = library.Begin(int64(node), v, uint64(weight))
	}
	return done(err, text)
}

//export p2pdilocoGoPoll
func p2pdilocoGoPoll(node C.p2pdiloco_node, timeout C.int32_t, text **C.char) C.int32_t {
	return done(library.Poll(int64(node), int32(timeout)), text)
}

//export p2pdilocoGoFinish
func p2pdilocoGoFinish(node C.p2pdiloco_node, params *C.float, elements C.uint64_t, timeout C.int32_t, slot *C.uint64_t, text **C.char) C.int32_t {
	v, err := vector(params, elements)
	if err == nil {
		var at uint64
		at, err = library.Finish(int64(node), v, int32(timeout))
		tell(slot, at, err)
	}
	return done(err, text)
}

//export p2pdilocoGoProgress
func p2pdilocoGoProgress(node C.p2pdiloco_node, steps C.uint64_t) C.int32_t {
	return done(library.Progress(int64(node), uint64(steps)), nil)
}

//export p2pdilocoGoStatus
func p2pdilocoGoStatus(node C.p2pdiloco_node) *C.char {
	status, err := library.Status(int64(node))
	if err != nil {
		return nil
	}
	return C.CString(status)
}

//export p2pdilocoGoEvent
func p2pdilocoGoEvent(node C.p2pdiloco_node, timeout C.int32_t, event **C.char) C.int32_t {
	if event == nil {
		return done(embed.ErrNull, nil)
	}
	*event = nil
	e, err := library.Event(int64(node), int32(timeout))
	if err == nil {
		*event = C.CString(e)
	}
	return done(err, nil)
}

//export p2pdilocoGoLeave
func p2pdilocoGoLeave(node C.p2pdiloco_node, timeout C.int32_t, text **C.char) C.int32_t {
	return done(library.Leave(int64(node), int32(timeout)), text)
}

//export p2pdilocoGoClose
func p2pdilocoGoClose(node C.p2pdiloco_node, text **C.char) C.int32_t {
	return done(library.Close(int64(node)), text)
}

// vector is the caller's memory.
func vector(params *C.float, elements C.uint64_t) ([]float32, error) {
	return embed.Vector(unsafe.Pointer(params), uint64(elements))
}

// tell says the slot where there is one.
func tell(slot *C.uint64_t, at uint64, err error) {
	if code := embed.CodeOf(err); slot != nil && (code == embed.OK || code == embed.Ended) {
		*slot = C.uint64_t(at)
	}
}

// done is err's code, and its text in C's memory.
func done(err error, text **C.char) C.int32_t {
	if text != nil {
		*text = nil
		if line := embed.Text(err); line != "" {
			*text = C.CString(line)
		}
	}
	return C.int32_t(embed.CodeOf(err))
}
