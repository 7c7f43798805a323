package reduce

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/bench"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// Config says what to measure and where.
type Config struct {
	bench.Config
	Case
	Iters   int    // measured rounds, after two that are not
	Against string // "" or MPI
}

// Case is one way to reduce.
type Case struct {
	Members    int    `json:"members"`
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
		Members: 4, Elements: 16 << 20, Schedule: Schedules[0], Aggregator: string(allreduce.Mean), Codec: codec.F32,
		Security: Securities[0], Transport: Transports[0], Roots: true,
	}
}

// Bounds: with more, the processes of one machine measure nothing useful.
const (
	maxElements = 1 << 28
	maxIters    = 10_000
)

// Validate returns all faults of c in one error.
func (c Config) Validate() error {
	c.Config.Peers = c.Members
	f := c.Config.Validate()
	oneOf := func(flag, value string, allowed []string) {
		f.Add(!slices.Contains(allowed, value), flag, value, "allowed: %s", strings.Join(allowed, ", "))
	}
	f.Add(c.Elements < 1 || c.Elements > maxElements, "elements", c.Elements, "allowed: 1 to %d", maxElements)
	f.Add(c.Iters < 1 || c.Iters > maxIters, "iters", c.Iters, "allowed: 1 to %d", maxIters)
	oneOf("schedule", c.Schedule, Schedules)
	oneOf("aggregator", c.Aggregator, aggregators())
	oneOf("codec", c.Codec, codec.Names())
	oneOf("security", c.Security, Securities)
	oneOf("transport", c.Transport, Transports)
	f.Add(c.Against != "" && c.Against != MPI, "against", c.Against, "allowed: "+MPI)
	f.Add(c.Against != "" && c.Namespaces, "against", c.Against, "it runs on loopback only: leave --netns out")
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
func (c Case) busFactor() float64 { return 2 * float64(c.Members-1) / float64(c.Members) }

// name is that of the measurement: what is not the default is in it.
func (c Config) name() string {
	parts := []string{"AllReduce", fmt.Sprintf("peers=%d", c.Members), bench.Size(c.vectorBytes())}
	d := Default()
	for _, x := range [][2]string{
		{c.Schedule, d.Schedule}, {c.Aggregator, d.Aggregator}, {c.Codec, d.Codec}, {c.Security, d.Security},
		{c.Transport, d.Transport},
	} {
		if x[0] != x[1] {
			parts = append(parts, x[0])
		}
	}
	if !c.Roots {
		parts = append(parts, "rootless")
	}
	if c.Frame > 0 {
		parts = append(parts, fmt.Sprintf("frame=%d", c.Frame))
	}
	if c.Rate > 0 {
		parts = append(parts, "rate="+c.Rate.String())
	}
	if c.Delay > 0 {
		parts = append(parts, "delay="+c.Delay.String())
	}
	return strings.Join(parts, "/")
}

const tcpHeaders = 52 // of each packet

// ideal is the seconds that a link with a rate needs for the values that a peer must send as
// float32, with the headers of TCP and IP. It is 0 without a rate, or if fewer bytes are enough. A
// link's rate counts IP packets, not Ethernet's 14 bytes.
func (c Config) ideal() float64 {
	if c.Rate == 0 || c.Codec != codec.F32 {
		return 0
	}
	mtu := float64(bench.MTU(c.Kernel()))
	return c.busFactor() * float64(c.vectorBytes()) * mtu / (mtu - tcpHeaders) * 8 / float64(c.Rate)
}
