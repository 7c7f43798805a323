package slotbench

import (
	"errors"
	"runtime"

	"github.com/p2pdiloco/p2pdiloco/internal/lab/bench"
)

// Result is what was measured: the document that bench slot --json prints.
type Result struct {
	Peers  int     `json:"peers"`
	Bytes  uint64  `json:"bytes"` // of the model as float32
	Slots  uint64  `json:"slots"` // that counted
	Delay  float64 `json:"round_trip_seconds"`
	Preset string  `json:"preset"`
	Cores  int     `json:"cores"`
	Phases []Phase `json:"phases"` // in order
	Whole  Phase   `json:"whole"`
	All    Counts  `json:"slot_of_all_peers"` // of one slot, in the mean over the slots
	Most   Counts  `json:"slot_of_most"`      // each of the peer that has most of it

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

// newResult sums up the reports of all peers.
func newResult(cfg Config, peers []peerReport) (Result, error) {
	r := Result{
		Peers: cfg.Peers, Bytes: cfg.elements() * 4, Slots: cfg.Slots, Delay: cfg.Delay.Seconds(),
		Preset: cfg.preset(), Cores: runtime.NumCPU(),
	}
	if err := checkRoots(peers); err != nil {
		return r, err
	}
	if r.Samples, r.Missed = samplesOf(cfg, peers); len(r.Samples) == 0 {
		return r, errors.New("no slot that counts has a contribution of any peer")
	}
	for i, p := range phases {
		r.Phases = append(r.Phases, r.phase(p.name, func(s Sample) float64 { return s.Seconds[i] }))
	}
	r.Whole = r.phase("whole", func(s Sample) float64 { return s.Whole })
	for _, p := range peers {
		r.count(p.Counts)
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

// count adds what a peer used for all slots.
func (r *Result) count(c Counts) {
	all, most := r.All.fields(), r.Most.fields()
	for i, v := range c.fields() {
		slot := *v / float64(r.Slots)
		*all[i] += slot
		*most[i] = max(*most[i], slot)
	}
}
