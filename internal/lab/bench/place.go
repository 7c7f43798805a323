package bench

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/p2pdiloco/p2pdiloco/internal/lab"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
	"github.com/p2pdiloco/p2pdiloco/internal/swarm"
)

// Links are the links between the processes of a benchmark. With either field set, each process has
// a network namespace of its own.
type Links struct {
	Rate sources.Rate  // of each link, each way; 0: no limit
	RTT  time.Duration // round trip between two processes
}

// Flags are those that set links.
func (l *Links) Flags(fs *pflag.FlagSet) {
	fs.DurationVar(&l.RTT, "rtt", 0, "round trip between two peers, each in a network namespace of its own; needs "+
		"root, on Linux (default loopback)")
	fs.Var(&l.Rate, "rate", "of the links of such peers, each way, like 200mbit (default no limit)")
}

// Check adds what is wrong with them.
func (l Links) Check(f *sources.Faults) {
	const most = 2 * time.Second
	f.Add(l.RTT < 0 || l.RTT > most, "rtt", l.RTT, "allowed: 0 to %v", most)
}

// Loopback says whether there are no namespaces.
func (l Links) Loopback() bool { return l == Links{} }

// String says what lies between the peers.
func (l Links) String() string {
	if l.Loopback() {
		return "loopback"
	}
	by := "p2plab"
	if l.kernel() {
		by = "the kernel"
	}
	return fmt.Sprintf("a namespace each, links of %s and a round trip of %v by %s", cmp.Or(l.Rate.String(), "any rate"),
		l.RTT, by)
}

// kernel says whether the kernel makes the links.
func (l Links) kernel() bool { return l.RTT == 0 }

// MTU is the bytes of an IP packet. The kernel's have what the internet's have. A program passes on
// each packet of links with a delay: of 1500 bytes it takes more than two cores to fill four links
// of 200 Mbit/s.
func (l Links) MTU() int {
	if l.kernel() {
		return 1500
	}
	return 9000
}

const labName = "p2pbench"

// Open makes the namespaces, if there are to be any. Links with only a rate are made by the kernel,
// because a forwarder would take CPU time that the peers need. A lab's packet crosses two links, so
// each has a quarter of the round trip.
func Open(ctx context.Context, sites int, l Links) (swarm.Testbed, error) {
	if l.Loopback() {
		return swarm.Loopback{}, nil
	}
	cfg := lab.Config{
		Nodes: sites, Name: labName, MTU: l.MTU(),
		Link: lab.Link{Rate: int64(l.Rate), Delay: l.RTT / 4},
	}
	if l.kernel() {
		return lab.NewWires(ctx, cfg)
	}
	return lab.New(ctx, cfg)
}
