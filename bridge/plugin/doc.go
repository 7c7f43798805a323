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
//	node -> Trainer (trainer.go) -> attach.Trainer
//	     -> the attach protocol (docs/attach.md), over a socket in the library's data directory
//	     -> host.c, with p2pdiloco_attach.h, as the only rank -> library
//
// What the protocol does not carry (which function runs, why it failed, what the library can do)
// lies in a small file that both processes have (note.go): it outlives a crash. From that file and
// the process's end a fault is put together (ending.go). A program that imports this package must
// be built with cgo, because it is its own trainer host.
package plugin
