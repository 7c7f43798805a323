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
// The caller ends the processes that it placed before it calls Close. Namespaces are called
// NAME-PID-LAB-NODE, after the process that made them, so that those of a process that crashed are
// found: New removes them first.
package lab
