// Package embed is the embedding ABI (bridge/include/p2pdiloco.h) without its C: nodes behind handles, calls that wait for so long at
// most, and errors that are numbers with a line of text. bridge/libp2pdiloco puts C functions over it.
//
//	l := embed.New(os.Stderr)
//	h, err := l.Join(config, params)      // at once: the rest waits for what happens in the background
//	slot, err := l.Anchor(h, params, -1)
//	err = l.Sync(h, params, tokens)
//	code, text := embed.CodeOf(err), embed.Text(err)
//
// Every call does its work on a goroutine of its own, for two reasons. A panic in it is an error of that call. And the thread of the
// caller spends its time in the call on its own stack: a signal handler of the host that did not ask for a signal stack (SA_ONSTACK) would
// otherwise find itself on a goroutine's, which is a few kilobytes large.
package embed
