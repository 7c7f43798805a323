// Package peers is what the parts of one Network have in common (Env): its host, its goroutines
// (Group), and what it knows of its peers: which ones are members of the run, which ones greeted
// it, where they are (Book), which ones are admitted, and which ones are alive.
//
// # Dialling
//
// One loop, the Dialer's, dials the peers that are to be connected: bootstrap nodes, members whose
// connection broke, peers that a search found, and those that are remembered. It alone knows when a
// peer is dialled again. The others ask it (Again, Hurry, Found, AddBootstrap), or for a connection
// at once (Dial, Connect). Ranks say in which order a peer's addresses are tried.
//
// # Admission
//
// A Gate closes a Network for everybody but the peers of one private run. It asks a peer for
// admission before the first stream to it, and answers those that ask here. Everything that a
// Network serves goes through Admits, everything that it opens through Pass and then StillPasses. A
// Gate is set on a Network before protocols are handled, and lifted when the run ends. A nil Gate
// lets everybody through.
//
// # Liveness
//
// libp2p takes 30 to 45 s to notice that a connection over QUIC, or over a link that was cut, is
// dead. Here
//
//   - members send each other pulses, and one that is silent for three of them is disconnected
//     (Signs, Pulses);
//   - so is a relay in use that leaves pings unanswered;
//   - connections from an address that this machine has lost end at once, where they led is dialled
//     again, and the other end closes its own when it is dialled (AddressChanges);
//   - a TCP connection that ends takes the QUIC connections to the same peer with it.
//
// The caller makes Signs first, since whatever reads bytes reports to them, and then the
// loops. The loops belong to the caller's task group.
package peers
