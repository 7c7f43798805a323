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
package attach
