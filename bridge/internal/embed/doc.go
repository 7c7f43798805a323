// Package embed is the embedding ABI (bridge/include/p2pdiloco.h) without its C: nodes behind handles, calls that wait for so long at
// most, and errors that are numbers with a line of text. bridge/libp2pdiloco puts C functions over it.
//
//	l := embed.New(os.Stderr)
//	h, err := l.Join(config, params)      // at once: the rest waits for what happens in the background
//	slot, err := l.Anchor(h, params, -1)
//	err = l.Sync(h, params, tokens)
//	code, text := embed.CodeOf(err), embed.Text(err)
//
// A panic in a call is an error of that call. One in a goroutine of a node's own ends the process, as a crash in any library does.
package embed
