// Package peer is what a program puts around a node, whether it is `p2pdiloco join` or another one
// that embeds a peer: a data directory of its own, the events file, the status API, and an orderly
// end. It prints nothing and handles no signals.
//
//	p, err := peer.Open(ctx, s, peer.Options{…}) // claims the data directory, looks for the run
//	node, err := p.Node(ctx)                     // waits until it is found or founded
//	err = node.Run(ctx)                          // or node.Anchor and node.Sync
//	err = p.Leave(ctx)                           // or p.Close()
//
// Every peer that Open returned must be ended with Leave or Close.
package peer
