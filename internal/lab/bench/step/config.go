package step

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/bench"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
	"github.com/p2pdiloco/p2pdiloco/internal/swarm"
	"github.com/p2pdiloco/p2pdiloco/p2p"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// Config says what to measure and where.
type Config struct {
	swarm.Setting
	Profile bool   // whether each peer leaves a CPU profile of what counts in Dir
	Slots   uint64 // that count, of each case
	Cases   []Case // at least one; they take turns, and are compared with the first
	MPI     bool   // whether OpenMPI reduces as large a vector as the first case, in turns
}

// Case is a swarm to measure.
type Case struct {
	Alone     bool // whether peers have the all-reduce and its network alone, and no ledger
	Peers     int
	Bytes     uint64         // of the model, as float32
	Spec      p2pdiloco.Spec // Aggregator, Codec, Schedule and Trust; empty: as a run has it
	Transport string         // of p2p's; empty: all
	Links     bench.Links
}

// Slots that do not count: the first are slower, and the last ends with the run.
const (
	warmUps = 2
	after   = 1
)

// Bounds: with more, the processes of one machine measure nothing useful.
const (
	maxPeers           = 64
	minBytes, maxBytes = 1 << 10, 1 << 30
	maxSlots           = 10_000
)

// Validate returns all faults of c in one error.
func (c Config) Validate() error {
	var f sources.Faults
	f.Add(c.Slots < 1 || c.Slots > maxSlots, "slots", c.Slots, "allowed: 1 to %d", maxSlots)
	for _, x := range c.Cases {
		f.Add(x.Peers < 2 || x.Peers > maxPeers, "peers", x.Peers, "allowed: 2 to %d", maxPeers)
		f.Add(x.Bytes < minBytes || x.Bytes > maxBytes, "size", bench.SizeText(x.Bytes), "allowed: 1KiB to 1GiB")
		x.Links.Check(&f)
		f.Add(c.MPI && !x.Links.Loopback(), "against", "mpi", "it runs on loopback only: leave --rtt and --rate out")
	}
	return errors.Join(f...)
}

// turnSlots is how many slots that count a swarm does, at most, before it is another one's turn.
const turnSlots = 10

// turns divides the slots into swarms.
func (c Config) turns() (slots []uint64) {
	for left := c.Slots; left > 0; left -= slots[len(slots)-1] {
		slots = append(slots, min(left, turnSlots))
	}
	return slots
}

// trimPermille is that of peers without a ledger: one peer of four.
const trimPermille = 250

// spec is the run's, or what a run would have, with so many slots that count.
func (c Case) spec(run string, slots uint64) p2pdiloco.Spec {
	s := c.Spec
	s.Name, s.Rounds, s.InnerSteps = run, warmUps+slots+after, 1
	s.StartPeers, s.MinPeers = uint64(c.Peers), uint64(c.Peers)
	if c.Alone {
		s.Trust, s.TrimPermille = p2pdiloco.TrustCrash, trimPermille
		s.Layout = layout(c.elements())
		s = s.Settled()
	}
	return s
}

func layout(elements uint64) trainer.Layout {
	return trainer.Layout{{Name: "x", Shape: []uint64{elements}}}
}

// elements is how many the model has.
func (c Case) elements() uint64 { return c.Bytes / 4 }

// transports are those that peers listen on.
func (c Case) transports() []string {
	if c.Transport != "" {
		return []string{c.Transport}
	}
	return []string{p2p.TransportTCP, p2p.TransportQUIC}
}

// preset is the timing that users have at such a distance.
func (c Case) preset() string {
	const far = 20 * time.Millisecond
	if c.Links.RTT >= far {
		return p2pdiloco.PresetWAN
	}
	return p2pdiloco.PresetLAN
}

// name is that of a measurement of a case: what is not as usual is in it.
func (c Case) name() string {
	kind := "Step"
	if c.Alone {
		kind = "AllReduce"
	}
	s, link := c.Spec, ""
	if c.Links.RTT > 0 {
		link = "rtt=" + c.Links.RTT.String()
	}
	rate := cmp.Or(c.Links.Rate.String(), "0")
	parts := []string{c.nameOf(kind), s.Aggregator, s.Codec, s.Schedule, s.Trust, c.Transport, "rate=" + rate, link}
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" || p == "rate=0" }), "/")
}

// nameOf is a name with the size of a case.
func (c Case) nameOf(kind string) string {
	return fmt.Sprintf("%s/peers=%d/size=%s", kind, c.Peers, bench.SizeText(c.Bytes))
}

// busFactor is how many times its vector a peer sends, and receives, at least.
func (c Case) busFactor() float64 { return 2 * float64(c.Peers-1) / float64(c.Peers) }

const tcpHeaders = 52 // of each packet

// ideal is the seconds that links with a rate need for the values that a peer must send as float32,
// with the headers of TCP and IP. It is 0 without a rate, or if fewer bytes are enough. A link's
// rate counts IP packets, not Ethernet's 14 bytes.
func (c Case) ideal() float64 {
	if c.Links.Rate == 0 || strings.TrimPrefix(c.Spec.Codec, codec.F32) != "" {
		return 0
	}
	mtu := float64(c.Links.MTU())
	return c.busFactor() * float64(c.Bytes) * mtu / (mtu - tcpHeaders) * 8 / float64(c.Links.Rate)
}
