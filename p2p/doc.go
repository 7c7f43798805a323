// Package p2p is a peer's place on the network: its identity, its libp2p host, how it finds the
// others of a run, and the streams between them. Only this package and gossip import libp2p (and,
// for tests, internal/sim and internal/nodetest).
//
// A program makes one Network, says which runs it is after, and serves protocols:
//
//	net, err := p2p.New(ctx, p2p.Config{IdentityFile: "identity.key", Bootstrap: addrs})
//	defer net.Close()
//	net.SetHello(func(from slot.PeerID, theirs p2p.Hello) (p2p.Hello, error) { … })
//	places := p2p.NewPlaces("my-run")
//	net.Advertise(ctx, places)
//	found, _ := net.Discover(ctx, places)
//	for peer := range found {
//		theirs, err := net.Hello(ctx, peer, mine) // a peer that was found is a stranger until it said hello
//	}
//
// Finding peers. Every peer is a server of a Kademlia DHT of our own (protocol prefix /p2pdiloco),
// so the run outlives its bootstrap nodes: records live on all peers of a small swarm, and a
// newcomer needs any one of them. Bootstrap addresses and addresses remembered in a file are
// dialled until one answers. On a local network mDNS does without any address.
//
// A bootstrap node is a Network with an identity file and fixed addresses that advertises nothing.
//
// Connections. TCP before QUIC (a third of the CPU a byte), TLS 1.3, yamux. TCP port
// reuse is off: two hosts that dial each other at once from their listening ports meet in one TCP
// simultaneous open, both take the TLS client's side, and the handshake fails. Without it they get
// two connections, which libp2p copes with. The price is TCP hole punching, which QUIC does not
// need port reuse for.
//
// Reaching peers. Directly, over ports that the router forwards, through holes that both sides
// punch at once (QUIC), or through a relay: what is there first is used and replaced by what is
// better. A peer holds reservations with two relays among the members, or its bootstrap nodes while
// it is not known to be reachable. It relays for others as Config.Relay says. Reach and Paths
// report how things are.
//
// Streams of much data (OpenBulk) have TCP connections of their own on the same port, TLS without a
// muxer, which are kept for the next stream. The swarm does not know of them; they end with
// libp2p's direct connections to the peer. Where none can be had, such a stream is one of libp2p's.
//
// Members pulse: a byte now and then over the connection there is. One that falls silent is
// disconnected after three pulses, long before QUIC or yamux notice, and a connection to a member
// that breaks is dialled once more at once.
//
// Strangers. Anybody may connect, announce a run, or begin long messages under any number of names.
// So streams, large messages, announcements held for the DHT, peers found and addresses remembered
// have bounds for one peer and for all together, and the peers given to Protect, the members, keep
// their place where something must go.
//
// Rules for callers: stream and hello handlers run in goroutines of their own and must end when
// their stream is reset. Close resets all streams and waits for everything the Network started, so
// it must not be called from a handler or callback. After Close everything unwraps to
// net.ErrClosed.
package p2p
