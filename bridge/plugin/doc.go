// Package plugin is a p2pdiloco.Trainer that is a shared library: whatever language it was written
// in, it exports what bridge/include/p2pdiloco_trainer.h asks for.
//
//	t, err := plugin.Open(ctx, plugin.Config{Path: "./libmytrainer.so", Config: `{"layers": 12}`})
//	node, err := p2pdiloco.Join(ctx, p2pdiloco.Config{Spec: spec, Trainer: t})
//	err = node.Run(ctx)
//	err = errors.Join(node.Leave(ctx), t.Close()) // in this order: the node uses t's memory
//
// The library is not loaded into this process. The program starts itself again as the trainer's
// host: a C constructor (host.c) sees an environment variable and takes over before the Go runtime
// starts, so that the library runs in an ordinary C process with one main thread. A crash in the
// library ends that process, with its real signal and core dump; a process that hangs is killed. In
// both cases the peer reports it and leaves the run in order.
//
//	node -> Trainer (trainer.go, export.go)
//	     -> turns (turn.go)      one call at a time
//	     -> call (call.go)       watched until its end
//	     -> process_unix.go      requests and replies over two pipes (wire.go)
//	     -> host.c -> library
//
// The model's vectors lie in memory that both processes map (memory.go), and the node works in them
// too, so that nothing is copied a second time after the device's copy to the host. A program that
// imports this package must be built with cgo, because it is its own trainer host.
package plugin
