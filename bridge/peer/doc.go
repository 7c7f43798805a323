// Package peer is what `p2pdiloco join` puts around a node: a data directory of its own, the events
// file, the status API, and an orderly end. It prints nothing and handles no signals.
//
//	p, err := peer.Open(ctx, s, peer.Options{…}) // claims the data directory, looks for the run
//	node, err := p.Node(ctx)                     // waits until it is found or founded
//	err = node.Run(ctx)
//	err = p.Leave(ctx)                           // or p.Close()
//
// Every peer that Open returned must be ended with Leave or Close.
//
// Metrics are written in the text format of Prometheus (metrics.go, definitions.go). Every scrape
// reads the status; nothing is counted here. There are few labels: the only ones with many values
// name the run's members, and their number is bounded.
package peer
