// Package attach lets the processes of a trainer, the ranks, work with a node that is a process of
// its own (docs/reference/attach.md).
//
//	s, err := attach.Listen(attach.Config{DataDir: dir, Run: "my-run"}) // ranks may come from now on
//	t, err := s.Trainer(ctx)          // waits until all ranks of one are there
//	node, err := p2pdiloco.Join(ctx, p2pdiloco.Config{Spec: spec, Trainer: t})
//	t.Joined(info)                    // for show
//	err = node.Run(ctx)
//	err = s.Close()                   // after the node, which works in the shared memory
//
// What a rank says, and what it is to be told, is decided by a pure machine (package box). One
// goroutine owns that machine (loop.go): it carries out what the machine wants, and the readers of
// the sockets (conn.go) and the node's calls (trainer.go) post to it. The vectors of the node lie
// in memory that the ranks map, too (package memory).
//
// # The box
//
// A Box is the node's side of the protocol as a pure machine: one machine's node with the ranks of
// its trainer. What comes in is a method call, and what is to be done for it comes out as effects.
// There are no goroutines in it, no clock and no sockets.
//
//	box.go     the box: connections, the set that has it, and what comes from outside
//	set.go     the ranks of one start of a trainer, until they share the memory
//	request.go what the node asks of all ranks, and the step rule
//	cover.go   whether the pieces of the ranks make up the model
//	effect.go  what the shell is to do
//
// # The memory
//
// A MemoryFile has the vectors that the node shares with the ranks. A Region maps it, and keeps its
// place in this process for good, so slices of it stay valid when another file is mapped there.
package attach
