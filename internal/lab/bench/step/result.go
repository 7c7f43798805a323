package step

import (
	"errors"

	"github.com/p2pdiloco/p2pdiloco/internal/lab/bench"
)

// compare adds the ratios to the first case and to OpenMPI.
func compare(r *bench.Report, cfg Config) {
	first := cfg.Cases[0]
	r.Say("links", "%s", first.Links)
	r.Say("preset", "%s", first.preset())
	r.Say("equal", "the models, or outcomes, of all peers after every slot")
	for i, c := range cfg.Cases {
		for _, unit := range []string{"sec/op", "reduce-sec", "cpu-sec/GB"} {
			r.Ratio(c.name(), c.nameOf("MPI"), unit, "mpi")
		}
		for _, unit := range []string{"sec/op", "cpu-sec", "cpu-sec/GB", "exchange-B", "peak-vectors"} {
			if i > 0 {
				r.Ratio(c.name(), first.name(), unit, "first")
			}
		}
	}
}

// mpiValues are the figures of a round of OpenMPI, beside a whole step and beside its reduction.
func mpiValues(x bench.Round) []bench.Value {
	return []bench.Value{{X: x.Seconds, Unit: "sec/op"}, {X: x.Seconds, Unit: "reduce-sec"}, {X: x.CPUPerGB(), Unit: "cpu-sec/GB"}}
}

// values are the figures of a reduction. The bus is what each peer must send in a second.
func (c Case) values(x bench.Round) []bench.Value {
	all := []bench.Value{
		{X: x.Seconds, Unit: "sec/op"}, {X: c.busFactor() * float64(c.Bytes) / x.Seconds, Unit: "bus-B/s"},
		{X: x.CPUPerGB(), Unit: "cpu-sec/GB"}, {X: x.Sent, Unit: "exchange-B"},
	}
	if ideal := c.ideal(); ideal > 0 {
		all = append(all, bench.Value{X: x.Seconds / ideal, Unit: "x-ideal"})
	}
	return all
}

// memory are the figures of the peer that had most bytes resident, from its start to its end.
func (c Case) memory(most uint64) []bench.Value {
	const beside = 150 << 20
	return []bench.Value{
		{X: float64(most) / float64(c.Bytes), Unit: "peak-vectors"},
		{X: float64(most) / float64(3*c.Bytes+beside), Unit: "peak-share"},
	}
}

// add adds what whole nodes told: each slot of each peer, and what a slot takes.
func (c Case) add(r *bench.Report, turn int, slots uint64, peers []answer) error {
	if err := checkRoots(peers); err != nil {
		return err
	}
	samples, missed := samplesOf(slots, peers)
	if len(samples) == 0 {
		return errors.New("no slot that counts has a contribution of any peer")
	}
	for _, x := range samples {
		values := []bench.Value{{X: x.whole(), Unit: "sec/op"}}
		for i, phase := range phases {
			values = append(values, bench.Value{X: x[i], Unit: phase + "-sec"})
		}
		if c.Links.RTT > 0 {
			values = append(values, bench.Value{X: x.whole() / c.Links.RTT.Seconds(), Unit: "round-trips"})
		}
		r.Add(turn, c.name(), 1, values...)
	}
	var all, most Counts
	memory := uint64(0)
	for _, p := range peers {
		memory = max(memory, p.Memory)
		for i, v := range p.Counts {
			all[i], most[i] = all[i]+v/float64(slots), max(most[i], v/float64(slots))
		}
	}
	values := append(c.memory(memory), bench.Value{X: float64(missed), Unit: "missed-slots"})
	for i, unit := range units {
		values = append(values, bench.Value{X: all[i], Unit: unit}, bench.Value{X: most[i], Unit: "most-" + unit})
	}
	r.Add(turn, c.name(), slots, values...)
	return nil
}
