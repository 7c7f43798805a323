package reducebench

import (
	"runtime"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/lab/bench"
)

// Result is the measurement of one case: the document that bench allreduce --json prints.
type Result struct {
	Case
	Bytes    uint64  `json:"bytes"` // of the vector as float32
	Iters    int     `json:"iters"`
	Cores    int     `json:"cores"`
	Links    *Links  `json:"links"` // null: loopback
	Verified bool    `json:"verified"`
	Seconds  Spread  `json:"seconds"` // of a round, the slowest peer's
	AlgBW    float64 `json:"algbw"`   // vector bytes a second, at the median
	// times 2(N-1)/N: bytes a second that a peer must send
	BusBW float64 `json:"busbw"`
	CPU   float64 `json:"cpu_seconds_per_wire_GB"` // all peers' CPU time over all peers' bytes
	// of a round, all peers': with headers of ours, without those of TLS and TCP
	Sent uint64 `json:"wire_bytes"`
	// of the peer that took most; 0: the system does not say
	Peak    uint64    `json:"peak_rss_bytes"`
	Beside  Beside    `json:"beside"`
	Against *Against  `json:"against"` // null: nothing to compare with
	Samples []float64 `json:"samples"` // seconds of each round
}

// Spread is the median of the measured rounds, and the extremes.
type Spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// Beside is the cost of a contribution before it is exchanged, which no other figure includes.
type Beside struct {
	// checking and hashing the contribution, the slowest peer's, all at once
	Commit  float64 `json:"commit_seconds"`
	HashCPU float64 `json:"hash_cpu_seconds_per_GB"` // hashing alone
}

// Against is the time of another program for the same vector in the same run.
type Against struct {
	Name    string    `json:"name"`
	Seconds Spread    `json:"seconds"`
	CPU     float64   `json:"cpu_seconds_per_wire_GB"` // for 2(N-1)/N of the vector a peer
	Ratio   float64   `json:"ratio"`                   // our median time over theirs
	Samples []float64 `json:"samples"`
}

// Links describes the link of each peer, in a network namespace.
type Links struct {
	BitsPerSecond int64   `json:"bits_per_second"` // each way; 0: no limit
	DelaySeconds  float64 `json:"delay_seconds"`   // one way between two peers
	// whether the kernel makes them; else a program that takes of the same processor
	Kernel bool `json:"kernel"`
}

func newResult(cfg Config, s *swarmOf, samples []sample) Result {
	r := Result{
		Case: cfg.Case, Bytes: cfg.vectorBytes(), Iters: len(samples), Cores: runtime.NumCPU(),
		Verified: s.tally.checked, Peak: s.tally.peak,
		Beside: Beside{s.tally.commit, s.tally.hash},
	}
	r.Frame = cfg.frame()
	if l := cfg.links(); l.Namespaces {
		r.Links = &Links{l.Rate, l.Delay.Seconds(), l.Kernel()}
	}
	r.Samples, r.Seconds = times(samples)
	r.AlgBW = float64(r.Bytes) / r.Seconds.Median
	r.BusBW = r.AlgBW * cfg.busFactor()
	r.CPU = cpuPerGB(samples)
	r.Sent = samples[len(samples)-1].sent
	return r
}

// compare adds the times of another contender.
func (r *Result) compare(name string, samples []sample) {
	a := &Against{Name: name, CPU: cpuPerGB(samples)}
	a.Samples, a.Seconds = times(samples)
	a.Ratio = r.Seconds.Median / a.Seconds.Median
	r.Against = a
}

func times(samples []sample) (all []float64, s Spread) {
	for _, x := range samples {
		all = append(all, x.seconds)
	}
	return all, Spread{bench.Median(all), slices.Min(all), slices.Max(all)}
}

func cpuPerGB(samples []sample) float64 {
	var cpu, sent float64
	for _, x := range samples {
		cpu, sent = cpu+x.cpu, sent+float64(x.sent)
	}
	if sent == 0 {
		return 0
	}
	return cpu / sent * 1e9
}
