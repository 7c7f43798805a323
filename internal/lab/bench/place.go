package bench

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/lab"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// Links are the links between the processes of a benchmark.
type Links struct {
	Namespaces bool          // whether each process has a namespace of its own
	Rate       int64         // of each link, bits a second each way; 0: no limit
	Delay      time.Duration // one way between two processes
}

// Bytes of a packet on links in namespaces. The kernel's have what the internet's have. A program
// passes on each packet of links with a delay: of 1500 bytes it takes more than two cores to fill
// four links of 200 Mbit/s.
const (
	kernelMTU  = 1500
	programMTU = 9000
)

// Kernel says whether the kernel makes the links.
func (l Links) Kernel() bool { return l.Delay == 0 }

// MTU is the bytes of an IP packet on links that the kernel makes, or a program.
func MTU(kernel bool) int {
	if kernel {
		return kernelMTU
	}
	return programMTU
}

// Place is where processes run: all on loopback, or each in a namespace.
type Place struct{ nodes nodes }

// nodes are namespaces: a lab's, or those that the kernel's links connect.
type nodes interface {
	Addr(site int) netip.Addr
	Place(site int, cmd *exec.Cmd) error
	Close() error
}

const labName = "p2pbench"

// Open makes the namespaces, if there are to be any. Links with only a rate are made by the kernel,
// because a forwarder would take CPU time that the peers need. A lab's packet crosses two links, so
// each has half of the delay.
func Open(ctx context.Context, sites int, l Links) (Place, error) {
	if !l.Namespaces {
		return Place{}, nil
	}
	cfg := lab.Config{
		Nodes: sites, Name: labName, MTU: MTU(l.Kernel()),
		Link: lab.Link{Rate: l.Rate, Delay: l.Delay / 2},
	}
	if l.Kernel() {
		w, err := lab.NewWires(ctx, cfg)
		if err != nil {
			return Place{}, err
		}
		return Place{w}, nil
	}
	w, err := lab.New(ctx, cfg)
	if err != nil {
		return Place{}, err
	}
	return Place{w}, nil
}

// Command prepares a program to run at a site.
func (p Place) Command(site int, program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	if p.nodes != nil {
		cmd.Err = errors.Join(cmd.Err, p.nodes.Place(site, cmd))
	}
	return cmd
}

// Listen returns the multiaddrs that a peer at a site listens on, one of each transport.
func (p Place) Listen(site int, transports ...string) (all []string) {
	ip := netip.MustParseAddr("127.0.0.1")
	if p.nodes != nil {
		ip = p.nodes.Addr(site)
	}
	for _, t := range transports {
		if t == p2p.TransportQUIC {
			all = append(all, fmt.Sprintf("/ip4/%v/udp/0/quic-v1", ip))
		} else {
			all = append(all, fmt.Sprintf("/ip4/%v/tcp/0", ip))
		}
	}
	return all
}

// Close takes the namespaces down; all processes have ended.
func (p Place) Close() error {
	if p.nodes == nil {
		return nil
	}
	return p.nodes.Close()
}
