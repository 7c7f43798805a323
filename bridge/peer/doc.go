// Package peer is what a program puts around a node, whether it is `p2pdiloco join` or another one that embeds a peer: a data
// directory that is its own, the events file, the status API, and an orderly end. It prints nothing and takes no signals.
//
//	p, err := peer.Open(s, peer.Options{…})    // claims what is on this machine, and begins to look for the run
//	node, err := p.Node(ctx)                   // waits until it is found or founded
//	err = node.Run(ctx)                        // or node.Anchor and node.Sync
//	err = p.Leave(ctx)                         // or p.Close()
//
// Leave or Close must end every peer that Open returned.
package peer
