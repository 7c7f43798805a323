// Package cgo is a trainer that is a shared library, called in this process: whatever language it
// was written in, it exports what bridge/include/p2pdiloco_trainer.h asks for.
//
//	t, err := cgo.Open(ctx, cgo.Config{Path: "./libmytrainer.so", Config: "layers 12"})
//	node, err := p2pdiloco.Join(ctx, p2pdiloco.Config{Spec: spec, Trainer: t})
//	err = node.Run(ctx)
//	err = errors.Join(node.Leave(ctx), t.Close()) // in this order: the node uses t's memory
//
// One goroutine, locked to its thread, makes all calls but cancel (thread.go), so that contexts
// that belong to a thread work, as in CUDA. The node's two vectors lie in memory outside Go's heap,
// which the library may page-lock (library.go).
//
// A library that crashes ends this process by a signal, mostly SIGABRT with Go's traceback (SIGSEGV
// and abort in C would end it with status 2, which says that a command line is wrong). So do exit()
// and a call that makes no progress for Config.Timeout. What starts the program again brings the
// peer back as the same member. The name of a call is written to a file before the call
// (record.go): the next Open says where the last process ended.
//
// CheckLibrary holds a library to the header, and compares two tensor by tensor; `p2pdiloco
// trainer-check` is its command. Each check is a function with the name of its line in the report
// (checks.go, rounds.go). The others go on after one fails, unless the trainer itself has failed.
//
// A program that was built without cgo has no such trainer: Open returns ErrNoCgo.
package cgo
