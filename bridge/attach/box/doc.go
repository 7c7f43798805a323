// Package box is the node's side of the attach protocol (docs/reference/attach.md) as a pure
// machine. A box is one machine's node with the ranks of its trainer. What comes in is a method
// call, and what is to be done for it comes out as effects. There are no goroutines here, no clock
// and no sockets.
//
//	b := box.New(box.Config{Run: "my-run", DataDir: dir, PID: 71, Timeout: 10 * time.Minute})
//	for _, effect := range b.Receive(now, conn, id, message) { … }
//	effects := b.Ask(now, &wire.Load{End: d})
//
// Where to look:
//
//	box.go     the box: connections, the set that has it, and what comes from outside
//	set.go     the ranks of one start of a trainer, until they share the memory
//	request.go what the node asks of all ranks, and the step rule
//	cover.go   whether the pieces of the ranks make up the model
//	effect.go  what the shell is to do
package box
