// Package plugin is a p2pdiloco.Trainer that is a shared library: whatever language it was written in, it exports what
// bridge/include/p2pdiloco_trainer.h asks for.
//
//	t, err := plugin.Open(ctx, plugin.Config{Path: "./libmytrainer.so", Config: `{"layers": 12}`})
//	node, err := p2pdiloco.Join(ctx, p2pdiloco.Config{Spec: spec, Trainer: t})
//	err = node.Run(ctx)
//	err = errors.Join(node.Leave(ctx), t.Close()) // in this order: the node works in the trainer's memory
//
// The library is not loaded into this process. The program starts itself again as the trainer's host: a C constructor (host.c)
// sees an environment variable and takes over before the Go runtime starts, so that the library finds an ordinary C process with
// one main thread. A crash in the library ends that process, with its real signal and core dump; a hang is ended by killing it;
// in both cases the peer says so and leaves as it should.
//
//	node -> Trainer (trainer.go, export.go) -> call (call.go) -> host process (process_unix.go): host.c -> library
//	        one call at a time                 watches it         requests and replies over two pipes (wire.go)
//
// The model's vectors lie in memory that both processes map (memory.go), and the node works in them too: what the device copies
// to the host is copied no second time. Who imports this package can be a host: it must be built with cgo.
package plugin
