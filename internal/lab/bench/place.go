package bench

import (
	"context"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/lab"
	"github.com/p2pdiloco/p2pdiloco/internal/swarm"
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

const labName = "p2pbench"

// Open makes the namespaces, if there are to be any. Links with only a rate are made by the kernel,
// because a forwarder would take CPU time that the peers need. A lab's packet crosses two links, so
// each has half of the delay.
func Open(ctx context.Context, sites int, l Links) (swarm.Testbed, error) {
	if !l.Namespaces {
		return swarm.Loopback{}, nil
	}
	cfg := lab.Config{
		Nodes: sites, Name: labName, MTU: MTU(l.Kernel()),
		Link: lab.Link{Rate: l.Rate, Delay: l.Delay / 2},
	}
	if l.Kernel() {
		return lab.NewWires(ctx, cfg)
	}
	return lab.New(ctx, cfg)
}
