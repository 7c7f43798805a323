// Package lab makes a network of machines out of one: each node is a Linux network namespace with
// an IPv4 address, and a forwarder in this process carries packets between them over links with a
// rate, a delay, loss and cuts, all of which may change while they are in use. It needs
// root, iproute2, and nothing of the kernel but namespaces and TUN devices: no netem, no bridges.
// If only a rate is needed, NewWires has the kernel alone make the links, which takes no CPU time
// from the processes that are measured.
//
//	link := lab.Link{Rate: 200e6, Delay: 25 * time.Millisecond}
//	l, err := lab.New(ctx, lab.Config{Nodes: 3, Link: link, Name: "books"})
//	defer l.Close()
//	cmd := exec.Command("p2pdiloco", "join", "--run", "books")
//	err = l.Place(1, cmd)      // cmd.Start now runs it on node 1
//	err = l.Cut(2)             // node 2 is unplugged
//	err = l.Partition(0, 2)    // they reach each other, and not node 1
//	err = l.Heal()             // all cuts are over
//	err = l.SetLink(1, lab.Link{Rate: 1e6})
//
// # The network
//
// A packet crosses its sender's link and then its receiver's; in the middle there is no limit. A
// link sends packets one after the other at its rate and holds those that wait in a queue of
// bounded size; what finds it full is dropped. Then the packet is on its way for Delay, and lost
// with a chance of Loss in a thousand. A cut stops packets where they set out and where they would
// arrive. Nodes reach each other and nothing else; there is no broadcast and no multicast.
//
// # How it is made
//
// The links are pure code (fabric and pipe): packets and times in, packets out. Around them stand
// one goroutine a node that reads the node's TUN device and one that waits until something is due
// and writes what has arrived; see lab.go.
//
// One TCP connection between two nodes gets 189 of 200 Mbit/s at 100 ms round trip and 944 of 1000
// at 20 ms, on two cores shared with other work (headers leave 193 and 965); a byte there and back
// takes 100 to 101 ms. `go test -run xxx -bench . ./internal/lab` measures it. Without limits, 1.4
// to 1.8 Gbit/s is what the forwarder carries: a packet costs two system calls.
//
// # An internet with routers
//
// NewInternet makes sites with one public address each, which are nodes of a lab: each has a link,
// and can be cut. Addresses are in a range that programs take for public (11.0.0.0/8). Each site
// has one host. At a Public site it has the public address itself; at others the node is a router,
// and the host has a private address behind it. Linux's own NAT translates addresses, as in most
// home routers; this needs nftables, and the kernel's nf_tables with nat. In the terms of RFC 4787,
// for UDP and for TCP:
//
//	site             mapping                     filtering
//	public           none                        none
//	full-cone        endpoint-independent        endpoint-independent, for 5 minutes
//	port-restricted  endpoint-independent        address and port-dependent
//	symmetric        address and port-dependent  address and port-dependent; ports are random
//	no-udp           as port-restricted          the same, and UDP never passes
//
// Routers silently drop packets that no host asked for. Some real routers answer such a packet or
// track it, and then give their own host another port towards that sender, which breaks hole
// punching. No site here does that. Mappings keep the host's port if it is free, as on Linux.
//
// # A swarm
//
// A Swarm is processes of this program on a Testbed, which says where each of them runs: on this
// machine (Loopback), or in the namespaces above. Join and StartBoot start peers and bootstrap
// nodes; a Peer is what can be read of one through all its processes: its events, its status and
// its report. Notes shows progress. Processes never outlive the Swarm's owner: each is in a process
// group of its own, and on Linux the kernel kills it if its parent is killed.
//
// # Ends
//
// The caller ends the processes that it placed before it calls Close. Namespaces are called
// NAME-PID-LAB-NODE, after the process that made them, so that those of a process that crashed are
// found: New removes them first.
package lab
