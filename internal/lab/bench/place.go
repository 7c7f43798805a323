package bench

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/lab"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
	"github.com/p2pdiloco/p2pdiloco/internal/swarm"
)

// Config is what all benches are told.
type Config struct {
	swarm.Setting
	Links
	Peers   int
	Profile string // folder for a CPU profile of what each peer does that counts; empty: none
}

// Validate returns the faults that all benches have alike.
func (c Config) Validate() (f sources.Faults) {
	const most, links = 64, "it is of links that only --netns has"
	f.Add(c.Peers < 2 || c.Peers > most, "peers", c.Peers, "allowed: 2 to %d", most)
	f.Add(c.Rate > 0 && !c.Namespaces, "rate", c.Rate, links)
	f.Add(c.Delay > 0 && !c.Namespaces, "delay", c.Delay, links)
	f.Add(c.Delay < 0 || c.Delay > time.Second, "delay", c.Delay, "allowed: 0 to 1s")
	return f
}

// Links are the links between the processes of a benchmark.
type Links struct {
	Namespaces bool          // whether each process has a namespace of its own
	Rate       sources.Rate  // of each link, each way; 0: no limit
	Delay      time.Duration // one way between two processes
}

// String says what lies between the peers.
func (l Links) String() string {
	if !l.Namespaces {
		return "loopback"
	}
	by := "p2plab"
	if l.Kernel() {
		by = "the kernel"
	}
	return fmt.Sprintf("a namespace each, links of %s and %v one way by %s", cmp.Or(l.Rate.String(), "any rate"),
		l.Delay, by)
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
		Link: lab.Link{Rate: int64(l.Rate), Delay: l.Delay / 2},
	}
	if l.Kernel() {
		return lab.NewWires(ctx, cfg)
	}
	return lab.New(ctx, cfg)
}
