// Package nat makes an internet of namespaces with routers in it: hosts that have a public address, and hosts behind the kinds of routers
// that peers meet. Linux's own NAT does the translating, as in most home routers. It needs root, iproute2 and nftables, and the kernel's nf_tables with nat.
//
//	w, err := nat.New(ctx, nat.Config{
//		Sites: []nat.Site{{Kind: nat.Public}, {Kind: nat.PortRestricted}, {Kind: nat.Symmetric, LAN: 2}},
//		Hosts: []int{0, 1},
//	})
//	defer w.Close()
//	cmd := exec.Command("p2pdiloco", "join", "--run", "books")
//	err = w.Place(1, cmd)      // host 1, behind a port-restricted router
//	err = w.Move(1, 2)         // and now behind a symmetric one: all its addresses are others
//
// # The internet
//
// A site is a place with one public address: a node of a lab (package lab), so each has a link with a rate and a delay, and can be cut.
// Addresses are such as a program takes for public ones (11.0.0.0/8); no packet leaves the lab's namespaces. At a site of kind Public its one
// host has the public address itself; at others the node is a router, and hosts have private addresses behind it.
//
// # The kinds
//
// By RFC 4787's words, of UDP as of TCP:
//
//	kind             mapping                     filtering
//	public           none                        none
//	full-cone        endpoint-independent        endpoint-independent: what has sent out can be reached by anybody for 5 minutes
//	port-restricted  endpoint-independent        address and port-dependent
//	symmetric        address and port-dependent  address and port-dependent; every mapping gets a random port
//	double-nat       endpoint-independent        address and port-dependent, twice: a home router behind a carrier's
//	no-udp           as port-restricted          the same, and UDP never passes
//
// Routers drop silently what nobody asked for. One that answers, or only takes such a packet in, remembers it and gives its own host
// another port towards that sender, which is a fault of real routers that hole punching fails on; it is not among the kinds.
//
// Mappings keep the host's port where it is free, as Linux does.
package nat
