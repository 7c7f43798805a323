// Package liveness finds out which peers are alive, and over which of their connections. libp2p
// takes 30 to 45 s to notice that a connection over QUIC, or over a link that was cut, is dead.
// Here
//
//   - members send each other pulses, and one that is silent for three of them is disconnected
//     (Signs, Pulses);
//   - relays in use that leave a ping unanswered are disconnected (Relays);
//   - connections from an address that this machine has lost end at once, where they led is dialled
//     again, and the other end closes its own when it is dialled (AddressChanges);
//   - a TCP connection that ends takes the QUIC connections to the same peer with it.
//
// The caller makes Signs and Relays first, since whatever reads bytes reports to them, and then the
// loops on them. The loops belong to the caller's task group.
package liveness
