// Package embed is the embedding ABI (bridge/include/p2pdiloco.h) without its C: nodes have
// handles, calls have timeouts, and an error is a number with a line of text. bridge/libp2pdiloco
// has the C functions that call it.
//
//	l := embed.New(os.Stderr)
//	h, err := l.Join(config, params)      // returns at once; the other calls wait
//	slot, err := l.Anchor(h, params, -1)
//	err = l.Sync(h, params, tokens)
//	code, text := embed.CodeOf(err), embed.Text(err)
//
// A panic in a call becomes an error of that call. A panic in a goroutine of a node ends the
// process, as a crash in any library does.
package embed
