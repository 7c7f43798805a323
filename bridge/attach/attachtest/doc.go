// Package attachtest is a client of the attach protocol for tests: one rank, around a
// trainer.Trainer in Go. It is the protocol's reference beside the clients in Python and C, and
// reads as docs/reference/attach.md does.
//
//	r := attachtest.Rank{Trainer: t, World: 2, Number: 1, Set: "a", Pieces: pieces}
//	err := r.Run(ctx, path)
package attachtest
