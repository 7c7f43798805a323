package step

import (
	"errors"
	"fmt"

	"github.com/p2pdiloco/p2pdiloco/internal/lab/bench"
)

// turn is what one swarm did.
type turn struct {
	cfg   Config
	trust string
	peers []peerReport
}

// sums is what all turns of a trust come to.
type sums struct {
	samples []Sample
	missed  int    // slots of peers that went on without the peer's contribution
	counts  Counts // of a slot, all peers
	memory  uint64 // most that a peer had resident, from start to end; 0: the system does not say
}

// sumOf adds up the reports of all peers of all swarms of one trust.
func sumOf(cfg Config, trust string, turns []turn) (s sums, err error) {
	for _, t := range turns {
		if t.trust != trust {
			continue
		}
		if err := checkRoots(t.peers); err != nil {
			return s, err
		}
		samples, missed := samplesOf(t.cfg, t.peers)
		s.samples, s.missed = append(s.samples, samples...), s.missed+missed
		for _, p := range t.peers {
			s.memory = max(s.memory, p.Memory)
			for i, v := range p.Counts {
				s.counts[i] += v / float64(cfg.Slots)
			}
		}
	}
	if len(s.samples) == 0 {
		return s, errors.New("no slot that counts has a contribution of any peer")
	}
	return s, nil
}

// report is what was measured: each slot of each peer, what a slot takes, and OpenMPI's rounds.
func report(cfg Config, turns []turn, rounds []bench.Round) (r bench.Report, err error) {
	r.Say("links", "%s", cfg.links())
	r.Say("preset", "%s", cfg.preset())
	size := bench.Size(cfg.elements() * 4)
	for _, x := range rounds {
		r.Add(cfg.name("MPI", size), 1, bench.Value{X: x.Seconds, Unit: "sec/op"},
			bench.Value{X: x.CPUPerGB(), Unit: "cpu-sec/GB"})
	}
	var first sums
	for _, trust := range cfg.trusts() {
		s, err := sumOf(cfg, trust, turns)
		if err != nil {
			return r, fmt.Errorf("trust %s: %w", trust, err)
		}
		if len(first.samples) == 0 {
			first = s
		}
		s.add(&r, cfg, cfg.name("Step", size, trust), rounds, first)
	}
	return r, nil
}

// add reports the sums of a trust.
func (s sums) add(r *bench.Report, cfg Config, name string, rounds []bench.Round, first sums) {
	r.Say("equal", "state roots after each slot of %s; %d of %d slots of a peer went on without it and are left out",
		name, s.missed, s.missed+len(s.samples))
	for _, x := range s.samples {
		values := []bench.Value{{X: x.whole(), Unit: "sec/op"}}
		for i, phase := range phases {
			values = append(values, bench.Value{X: x[i], Unit: phase + "-sec"})
		}
		if cfg.RTT > 0 {
			values = append(values, bench.Value{X: x.whole() / cfg.RTT.Seconds(), Unit: "round-trips"})
		}
		if len(rounds) > 0 {
			values = append(values, bench.Value{X: x[2] / bench.MedianTime(rounds), Unit: "reduce-x-mpi"})
		}
		r.Add(name, 1, values...)
	}
	var values []bench.Value
	for i, unit := range units {
		values = append(values, bench.Value{X: s.counts[i], Unit: unit})
	}
	if s.memory > 0 {
		values = append(values, bench.Value{X: float64(s.memory) / float64(cfg.Bytes), Unit: "peak-vectors"})
	}
	if len(cfg.trusts()) > 1 {
		values = append(values, bench.Value{X: s.median() / first.median(), Unit: "x-first"},
			bench.Value{X: s.counts[0] / first.counts[0], Unit: "cpu-x-first"},
			bench.Value{X: s.counts[1] / first.counts[1], Unit: "exchange-x-first"})
	}
	r.Add(name, cfg.Slots, values...)
}

func (s sums) median() float64 {
	var x []float64
	for _, one := range s.samples {
		x = append(x, one.whole())
	}
	return bench.Median(x)
}
