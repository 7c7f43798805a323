package reducebench

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/bench"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
	"github.com/p2pdiloco/p2pdiloco/internal/swarm"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// Config says what to measure and where.
type Config struct {
	Case
	swarm.Setting
	Iters   int    // measured rounds, after two that are not
	Against string // "" or MPI
	// whether each peer is in a network namespace of its own, behind a link
	Namespaces bool
	Rate       sources.Rate  // of that link, each way; 0: no limit
	Delay      time.Duration // one way between two peers
	Profile    string        // folder for a CPU profile of each peer's measured rounds; empty: none
}

// links are those between the peers.
func (c Config) links() bench.Links {
	return bench.Links{Namespaces: c.Namespaces, Rate: int64(c.Rate), Delay: c.Delay}
}

// Case is one way to reduce.
type Case struct {
	Peers      int    `json:"peers"`
	Elements   uint64 `json:"elements"` // of the vector
	Frame      uint64 `json:"frame"`    // elements of a frame; 0: as a run has it
	Schedule   string `json:"schedule"`
	Aggregator string `json:"aggregator"`
	Codec      string `json:"codec"`
	Security   string `json:"security"`
	Transport  string `json:"transport"`
	Roots      bool   `json:"roots"` // whether frames are hashed and checked, as in a run
}

// What may be chosen. The first is the default.
var (
	Schedules  = []string{string(allreduce.Rotation), string(allreduce.Ring), string(allreduce.Auto)}
	Securities = []string{p2p.SecurityTLS, p2p.SecurityNoise}
	Transports = []string{p2p.TransportTCP, p2p.TransportQUIC}
)

// MPI is Debian's OpenMPI, which Config.Against may name.
const MPI = "mpi"

// Default is the case that the flags leave.
func Default() Case {
	return Case{
		Peers: 4, Elements: 16 << 20, Schedule: Schedules[0], Aggregator: string(allreduce.Mean), Codec: codec.F32,
		Security: Securities[0], Transport: Transports[0], Roots: true,
	}
}

// Bounds: with more, the processes of one machine measure nothing useful.
const (
	maxPeers    = 64
	maxElements = 1 << 28
	maxIters    = 10_000
)

// Validate returns all faults of c in one error.
func (c Config) Validate() error {
	var f sources.Faults
	oneOf := func(flag, value string, allowed []string) {
		f.Add(!slices.Contains(allowed, value), flag, value, "allowed: %s", strings.Join(allowed, ", "))
	}
	f.Add(c.Peers < 2 || c.Peers > maxPeers, "peers", c.Peers, "allowed: 2 to %d", maxPeers)
	f.Add(c.Elements < 1 || c.Elements > maxElements, "elements", c.Elements, "allowed: 1 to %d", maxElements)
	f.Add(c.Iters < 1 || c.Iters > maxIters, "iters", c.Iters, "allowed: 1 to %d", maxIters)
	oneOf("schedule", c.Schedule, Schedules)
	oneOf("aggregator", c.Aggregator, aggregators())
	oneOf("codec", c.Codec, codec.Names())
	oneOf("security", c.Security, Securities)
	oneOf("transport", c.Transport, Transports)
	f.Add(c.Against != "" && c.Against != MPI, "against", c.Against, "allowed: "+MPI)
	f.Add(c.Against != "" && c.Namespaces, "against", c.Against, "it runs on loopback only: leave --netns out")
	const links = "it is of links that only --netns has"
	f.Add(c.Rate > 0 && !c.Namespaces, "rate", c.Rate, links)
	f.Add(c.Delay > 0 && !c.Namespaces, "delay", c.Delay, links)
	f.Add(c.Delay < 0 || c.Delay > time.Second, "delay", c.Delay, "allowed: 0 to 1s")
	if len(f) == 0 {
		err := c.params().Validate()
		f.Add(err != nil, "frame", c.Frame, "%v", err)
	}
	return errors.Join(f...)
}

func aggregators() (names []string) {
	for _, a := range allreduce.Aggregators() {
		names = append(names, string(a))
	}
	return names
}

// trimPermille is that of the demo: one peer of four.
const trimPermille = 250

// params are the engine's parameters in a run of this case.
func (c Case) params() allreduce.Params {
	a := allreduce.Aggregator(c.Aggregator)
	return allreduce.Params{
		Fragments: []uint64{c.Elements}, FrameElements: int(c.frame()), Aggregator: a, TrimPermille: trimPermille,
		Clip: a.DefaultClip(), Codec: c.Codec,
		Schedule: allreduce.Schedule(c.Schedule), Rootless: !c.Roots,
	}
}

// frame is the elements of a frame: a run's default, unless one is given.
func (c Case) frame() uint64 {
	const most, least, frames = 1 << 16, 1 << 10, 64
	if c.Frame > 0 {
		return c.Frame
	}
	f := uint64(most)
	for f > least && f*frames > c.Elements {
		f /= 2
	}
	return f
}

// vectorBytes is the size of the vector as float32. Rates refer to it, for every codec.
func (c Case) vectorBytes() uint64 { return 4 * c.Elements }

// busFactor is how many times its vector a peer sends, and receives, at least.
func (c Case) busFactor() float64 { return 2 * float64(c.Peers-1) / float64(c.Peers) }
