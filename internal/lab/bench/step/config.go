package step

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/lab"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/bench"
)

// Config says what to measure and where.
type Config struct {
	bench.Config
	Bytes uint64 // of the model, as float32
	Slots uint64 // that count
	// round trip between two peers; above 0, each has a network namespace of its own
	RTT time.Duration
	// trust of the runs, each measured; empty: TrustCrash alone
	Trusts lab.Names[string]
	MPI    bool // whether OpenMPI reduces as large a vector, in turns
}

// Slots that do not count: the first are slower, and the last ends with the run.
const (
	warmUps = 2
	after   = 1
)

// Bounds: with more, the processes of one machine measure nothing useful.
const (
	minBytes, maxBytes = 1 << 10, 1 << 30
	maxSlots           = 10_000
	maxRTT             = 2 * time.Second
)

// Validate returns all faults of c in one error.
func (c Config) Validate() error {
	f := c.Config.Validate()
	f.Add(c.Bytes < minBytes || c.Bytes > maxBytes, "size", fmt.Sprintf("%dKiB", c.Bytes>>10),
		"allowed: 1KiB to 1GiB")
	f.Add(c.Slots < 1 || c.Slots > maxSlots, "slots", c.Slots, "allowed: 1 to %d", maxSlots)
	f.Add(c.RTT < 0 || c.RTT > maxRTT, "rtt", c.RTT, "allowed: 0 to %v", maxRTT)
	f.Add(c.MPI && c.RTT > 0, "against", "mpi", "it runs on loopback only: leave --rtt out")
	known := []string{p2pdiloco.TrustCrash, p2pdiloco.TrustByzantine}
	for i, t := range c.Trusts {
		f.Add(!slices.Contains(known, t) || slices.Contains(c.Trusts[:i], t), "trusts", c.Trusts.String(),
			"allowed: each once of %s", strings.Join(known, ","))
	}
	return errors.Join(f...)
}

// links are those between the peers.
func (c Config) links() bench.Links { return bench.Links{Namespaces: c.RTT > 0, Delay: c.RTT / 2} }

// preset is the timing that users have at such a distance.
func (c Config) preset() string {
	const far = 20 * time.Millisecond
	if c.RTT >= far {
		return p2pdiloco.PresetWAN
	}
	return p2pdiloco.PresetLAN
}

// trusts are those to measure.
func (c Config) trusts() []string {
	if len(c.Trusts) == 0 {
		return []string{p2pdiloco.TrustCrash}
	}
	return c.Trusts
}

// turnSlots is how many slots that count a swarm does, at most, before it is the next trust's turn.
const turnSlots = 10

// turns divides the slots into swarms. One trust alone needs one swarm. Several take turns, with
// OpenMPI, too, because a machine is faster at one time than at another.
func (c Config) turns() (slots []uint64) {
	if len(c.trusts()) == 1 && !c.MPI {
		return []uint64{c.Slots}
	}
	for left := c.Slots; left > 0; left -= slots[len(slots)-1] {
		slots = append(slots, min(left, turnSlots))
	}
	return slots
}

// first and last are the slots that count, rounds all of the run.
func (c Config) first() uint64  { return warmUps + 1 }
func (c Config) last() uint64   { return warmUps + c.Slots }
func (c Config) rounds() uint64 { return c.last() + after }

// elements is how many the model has.
func (c Config) elements() uint64 { return c.Bytes / 4 }

// name is that of a measurement.
func (c Config) name(what string, more ...string) string {
	name := fmt.Sprintf("%s/peers=%d/%s", what, c.Peers, strings.Join(more, "/"))
	if c.RTT > 0 {
		name += "/rtt=" + c.RTT.String()
	}
	return name
}
