package reduce

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/lab/bench"
)

// report adds the rounds of swarms that took turns, and OpenMPI's if there is one more contender.
// Each round is held against that of the same turn.
func report(r *bench.Report, swarms []*swarmOf, rounds [][]bench.Round) {
	least := math.Inf(1)
	for i := range swarms {
		least = min(least, bench.MedianCPU(rounds[i]))
	}
	for i, s := range swarms {
		for n, x := range rounds[i] {
			values := append(s.cfg.values(x), bench.Value{X: x.CPUPerGB() / least, Unit: "cpu-x-least"})
			if i > 0 {
				values = append(values, bench.Value{X: x.Seconds / rounds[0][n].Seconds, Unit: "x-first"})
			}
			if len(rounds) > len(swarms) {
				m := rounds[len(swarms)][n]
				values = append(values, bench.Value{X: x.Seconds / m.Seconds, Unit: "x-mpi"},
					bench.Value{X: x.CPUPerGB() / m.CPUPerGB(), Unit: "cpu-x-mpi"})
			}
			r.Add(s.cfg.name(), 1, values...)
		}
		r.Add(s.cfg.name(), uint64(len(rounds[i])), s.tally.values(s.cfg.vectorBytes())...)
	}
	if len(rounds) > len(swarms) {
		name := fmt.Sprintf("MPI/peers=%d/%s", swarms[0].cfg.Members, bench.Size(swarms[0].cfg.vectorBytes()))
		for _, x := range rounds[len(swarms)] {
			r.Add(name, 1, swarms[0].cfg.values(x)...)
		}
	}
}

// values are the figures of a round. bus is what each peer must send in a second.
func (c Config) values(x bench.Round) []bench.Value {
	bus := c.busFactor() * float64(c.vectorBytes()) / x.Seconds
	all := []bench.Value{
		{X: x.Seconds, Unit: "sec/op"}, {X: bus, Unit: "bus-B/s"}, {X: x.CPUPerGB(), Unit: "cpu-sec/GB"},
		{X: x.Sent, Unit: "sent-B"},
	}
	if ideal := c.ideal(); ideal > 0 {
		all = append(all, bench.Value{X: x.Seconds / ideal, Unit: "x-ideal"},
			bench.Value{X: ideal / x.Seconds, Unit: "link-share"})
	}
	return all
}

// values are what a swarm has once: all outcomes had the same bits, and were near the reference.
func (t tally) values(vector uint64) []bench.Value {
	const beside = 150 << 20
	checked := 0.0
	if t.checked {
		checked = 1
	}
	return []bench.Value{
		{X: float64(t.peak), Unit: "peak-B"}, {X: float64(t.peak) / float64(3*vector+beside), Unit: "peak-share"},
		{X: t.commit, Unit: "commit-sec"}, {X: t.hash, Unit: "hash-cpu-sec/GB"}, {X: checked, Unit: "verified"},
	}
}

// goalCases are the cases that have goals (../goals.txt). Those of a row take turns.
func goalCases(cfg Config) (all [][]Config) {
	const rate, mib = 200e6, 1 << 18 // a MiB has so many elements
	cfg.Case, cfg.Against, cfg.Links = Default(), "", bench.Links{}
	of := func(change func(*Config)) Config {
		c := cfg
		change(&c)
		return c
	}
	slow := func(elements uint64, delay time.Duration, transport string) []Config {
		return []Config{of(func(c *Config) {
			c.Links = bench.Links{Namespaces: true, Rate: rate, Delay: delay}
			c.Elements, c.Transport, c.Iters = elements, transport, min(c.Iters, 3)
		})}
	}
	scaling := make([]Config, 0, 4)
	for _, n := range []int{2, 4, 8, 16} { // the vector is small enough for 30 processes at once
		scaling = append(scaling, of(func(c *Config) { c.Members, c.Elements = n, 32*mib }))
	}
	against := of(func(c *Config) { c.Against = MPI })
	return [][]Config{
		{against, of(func(c *Config) { c.Roots = false })},
		{cfg, of(func(c *Config) { c.Aggregator = "trimmed_mean" })},
		{cfg, of(func(c *Config) { c.Codec = "int8" })},
		{of(func(c *Config) { c.Against, c.Elements = MPI, mib })},
		scaling,
		slow(32*mib, 0, "tcp"), slow(256*mib, 50*time.Millisecond, "tcp"), slow(256*mib, 50*time.Millisecond, "quic"),
	}
}

// RunGoals measures all cases that have goals, and prints each as soon as it is measured. From cfg
// it takes the number of rounds, the program and the folder. Cases that fail do not end the others.
func RunGoals(ctx context.Context, cfg Config) error {
	var errs []error
	for _, cfgs := range goalCases(cfg) {
		if cfgs[0].Namespaces && os.Geteuid() != 0 {
			fmt.Fprintf(cfg.Out, "%s: it needs root\n", cfgs[0].name())
			continue
		}
		var r bench.Report
		err := measure(ctx, &r, cfgs)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if errors.Is(err, bench.ErrNoMPI) { // ours is worth having
			fmt.Fprintln(cfg.Out, err)
			cfgs[0].Against = ""
			err = measure(ctx, &r, cfgs)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", cfgs[0].name(), err))
			continue
		}
		r.Print(cfg.Out)
	}
	return errors.Join(errs...)
}
