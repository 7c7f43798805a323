package slotbench

import (
	"errors"
	"runtime"

	"github.com/p2pdiloco/p2pdiloco/internal/lab/bench"
)

// Results is what was measured: the document that bench slot --json prints.
type Results struct {
	Results []Result `json:"results"` // of each trust
}

// Result is what was measured with one trust.
type Result struct {
	Trust  string  `json:"trust"`
	Peers  int     `json:"peers"`
	Bytes  uint64  `json:"bytes"` // of the model as float32
	Slots  uint64  `json:"slots"` // that counted
	RTT    float64 `json:"round_trip_seconds"`
	Preset string  `json:"preset"`
	Cores  int     `json:"cores"`
	Phases []Phase `json:"phases"` // in order
	Whole  Phase   `json:"whole"`
	All    Counts  `json:"slot_of_all_peers"` // of one slot, in the mean over the slots
	Most   Counts  `json:"slot_of_most"`      // each of the peer that has most of it

	// most that a peer had resident, from start to end; 0: the system does not say
	Memory uint64 `json:"memory_of_most_bytes"`

	Samples []Sample `json:"samples"`
	// slots of peers that no sample has, as they went on without the peer's contribution
	Missed int `json:"missed"`
}

// Phase is a part of an outer step, over all slots and peers.
type Phase struct {
	Name   string  `json:"name"`
	Median float64 `json:"median_seconds"`
	P90    float64 `json:"p90_seconds"`
}

// turn is what one swarm did.
type turn struct {
	cfg   Config
	peers []peerReport
}

// newResult sums up the reports of all peers of all swarms of one trust.
func newResult(cfg Config, trust string, turns []turn) (Result, error) {
	r := Result{
		Trust: trust, Peers: cfg.Peers, Bytes: cfg.elements() * 4, Slots: cfg.Slots, RTT: cfg.RTT.Seconds(),
		Preset: cfg.preset(), Cores: runtime.NumCPU(),
	}
	for n, t := range turns {
		if err := checkRoots(t.peers); err != nil {
			return r, err
		}
		samples, missed := samplesOf(t.cfg, t.peers)
		for i := range samples {
			samples[i].Turn = n + 1
		}
		for _, p := range t.peers {
			r.Memory = max(r.Memory, p.Memory)
		}
		r.Samples, r.Missed = append(r.Samples, samples...), r.Missed+missed
	}
	if len(r.Samples) == 0 {
		return r, errors.New("no slot that counts has a contribution of any peer")
	}
	for i, p := range phases {
		r.Phases = append(r.Phases, r.phase(p.name, func(s Sample) float64 { return s.Seconds[i] }))
	}
	r.Whole = r.phase("whole", func(s Sample) float64 { return s.Whole })
	for _, c := range sumOf(turns) {
		r.count(c)
	}
	return r, nil
}

func (r *Result) phase(name string, of func(Sample) float64) Phase {
	x := make([]float64, len(r.Samples))
	for i, s := range r.Samples {
		x[i] = of(s)
	}
	return Phase{name, bench.Median(x), bench.Quantile(x, .9)}
}

// sumOf adds up what each peer used, by its number, in all swarms.
func sumOf(turns []turn) []Counts {
	var sums []Counts
	for _, t := range turns {
		for i, p := range t.peers {
			if i == len(sums) {
				sums = append(sums, Counts{})
			}
			all := sums[i].fields()
			for j, v := range p.Counts.fields() {
				*all[j] += *v
			}
		}
	}
	return sums
}

// count adds what a peer used for all slots.
func (r *Result) count(c Counts) {
	all, most := r.All.fields(), r.Most.fields()
	for i, v := range c.fields() {
		slot := *v / float64(r.Slots)
		*all[i] += slot
		*most[i] = max(*most[i], slot)
	}
}
