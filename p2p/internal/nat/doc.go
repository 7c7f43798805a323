// Package nat makes a peer reachable that is behind a router or firewall, and lets a reachable one
// help others.
//
// Reachability keeps what is known of how others can reach this peer. Reservations holds places
// with relays: with members, and, while that is not directly, bootstrap nodes. Relay relays for the
// peers of our runs, and has allowances for those that are not members. Holes punches
// holes at once with the other side (DCUtR), and Upgrades replaces relayed connections to members
// by direct ones as soon as that can be.
//
// The caller makes a NAT, which composes these, calls PunchHoles where the host is its own, and
// then Start. All loops belong to the caller's task group.
package nat
