package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/p2pdiloco/p2pdiloco/internal/lab"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
)

// Place is the peers of a swarm, and the links between them. With either Rate or RTT set each has a
// network namespace of its own.
type Place struct {
	Peers int
	Rate  sources.Rate  // of each link, each way; 0: no limit
	RTT   time.Duration // round trip between two processes
}

// Flags are those that set a place.
func (p *Place) Flags(fs *pflag.FlagSet) {
	fs.IntVar(&p.Peers, "peers", 4, "peers, a process each")
	fs.DurationVar(&p.RTT, "rtt", 0, "round trip between two peers, each in a network namespace of its own; needs "+
		"Linux, root and iproute2 (default loopback)")
	fs.Var(&p.Rate, "rate", "of the links of such peers, each way, like 200mbit (default no limit)")
}

// Check adds what is wrong with it. With more peers, the processes of one machine measure nothing
// useful.
func (p Place) Check(f *sources.Faults) {
	f.Add(p.Peers < 2 || p.Peers > 64, "peers", p.Peers, "allowed: 2 to 64")
	f.Add(p.RTT < 0 || p.RTT > 2*time.Second, "rtt", p.RTT, "allowed: 0 to 2s")
}

// CheckNames adds which of the names given for a flag are not allowed.
func CheckNames(f *sources.Faults, flag string, given lab.Names[string], allowed []string) {
	for _, name := range given {
		f.Add(!slices.Contains(allowed, name), flag, given, "allowed: %s", strings.Join(allowed, ", "))
	}
}

// Loopback says whether there are no namespaces.
func (p Place) Loopback() bool { return p.Rate == 0 && p.RTT == 0 }

// Links says what lies between the peers.
func (p Place) Links() string {
	if p.Loopback() {
		return "loopback"
	}
	return fmt.Sprintf("a namespace each, links of %s and a round trip of %v", cmp.Or(p.Rate.String(), "any rate"),
		p.RTT)
}

// open makes the namespaces, if there are to be any. Links with only a rate are made by the kernel,
// because a forwarder would take CPU time that the peers need. Its packets are larger than the
// internet's: of 1500 bytes it takes more than two cores to fill four links of 200 Mbit/s. A lab's
// packet crosses two links, so each has a quarter of the round trip.
func (p Place) open(ctx context.Context) (lab.Testbed, error) {
	if p.Loopback() {
		return lab.Loopback{}, nil
	}
	cfg := lab.Config{
		Nodes: 1 + p.Peers, Name: "p2pbench",
		Link: lab.Link{Rate: int64(p.Rate), Delay: p.RTT / 4},
	}
	if p.RTT == 0 {
		return lab.NewWires(ctx, cfg)
	}
	cfg.MTU = 9000
	return lab.New(ctx, cfg)
}

// Swarm is one that is measured. Sites of peers are from 1 on.
type Swarm struct {
	*lab.Swarm
	Testbed lab.Testbed
	Dir     string   // for data directories, events and logs
	Boot    []string // addresses of the bootstrap node
}

// Run has do measure a swarm, which must be done within a time. Its folder is a new one: data
// directories of an earlier swarm belong to another run.
func (p Place) Run(ctx context.Context, setting lab.Setting, name string, limit time.Duration,
	do func(context.Context, Swarm) error,
) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errors.New("it took far too long, and was stopped"))
	defer cancel()
	var s Swarm
	if s.Testbed, err = p.open(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Testbed.Close()) }()
	if s.Swarm, err = lab.NewSwarm(setting, s.Testbed); err != nil {
		return err
	}
	defer s.Close()
	if s.Dir, err = os.MkdirTemp(setting.Dir, strings.ReplaceAll(name, "/", "-")+"-"); err != nil {
		return err
	}
	boot, err := s.StartBoot(ctx, 0, s.Dir, s.Listen(0)...)
	if err != nil {
		return err
	}
	s.Boot = boot.Addrs
	if err = do(ctx, s); ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
