// Package nat makes a peer reachable that is behind a router or firewall, and lets a reachable one
// help others.
//
// Reachability keeps what is known of how others can reach this peer. While that is not directly,
// Reservations holds places with relays among the bootstrap nodes and members. Relay relays for the
// peers of our runs, within allowances for each peer, each address and all together. Holes punches
// holes at once with the other side (DCUtR), and Upgrades replaces relayed connections to members
// by direct ones as soon as that can be.
//
// The caller makes a NAT, which composes these, calls PunchHoles where the host is its own, and
// then Start. All loops belong to the caller's task group.
package nat
