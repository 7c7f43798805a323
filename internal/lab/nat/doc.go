// Package nat makes an internet of namespaces with routers in it: hosts that have a public address,
// and hosts behind the kinds of routers that are common. Linux's own NAT translates addresses, as
// in most home routers. It needs root, iproute2 and nftables, and the kernel's nf_tables with nat.
//
//	w, err := nat.New(ctx, "books", lab.Link{}, nat.Public, nat.PortRestricted, nat.Symmetric)
//	defer w.Close()
//	cmd := exec.Command("p2pdiloco", "join", "--run", "books")
//	err = w.Place(1, cmd)      // host 1, behind a port-restricted router
//
// # The internet
//
// A site is a place with one public address: a node of a lab (package lab), so each has a link with
// a rate and a delay, and can be cut. Addresses are in a range that programs take for public
// (11.0.0.0/8); no packet leaves the lab's namespaces. Each site has one host. At a site of kind
// Public it has the public address itself; at others the node is a router, and the host has a
// private address behind it.
//
// # The kinds
//
// In the terms of RFC 4787, for UDP and for TCP:
//
//	kind             mapping                     filtering
//	public           none                        none
//	full-cone        endpoint-independent        endpoint-independent, for 5 minutes
//	port-restricted  endpoint-independent        address and port-dependent
//	symmetric        address and port-dependent  address and port-dependent; ports are random
//	no-udp           as port-restricted          the same, and UDP never passes
//
// Routers silently drop packets that no host asked for. Some real routers answer such a packet or
// track it, and then give their own host another port towards that sender, which breaks hole
// punching. No kind here does that.
//
// Mappings keep the host's port if it is free, as on Linux.
package nat
